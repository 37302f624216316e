// SPDX-License-Identifier: Apache-2.0
//
// Prioritised requests that find too little, at rules that lend what is to come.  They are
// lent it when every other rule has let them pass: a loan that is taken back cannot leave
// the cell as it was.
#include "engine/walk.h"

namespace flowguard::engine {

CellAnswer Walk::LookToBorrow(const Hold& hold, CellRef cell) noexcept {
  cell.spec = &*hold.spec->prioritised;
  attempt_.loans_ = true;
  CellAnswer answer = ground_.cells.Look(cell, now_, hold.cost, attempt_.wait_max_);
  if (!peek()) answer.numbers.wait = Duration::zero();  // as it is when it is taken
  return answer;
}

void Walk::TakeLoans() noexcept {
  if (peek()) return;
  EachHold([&](Hold& hold) {
    if (hold.state != Hold::State::kLoanLater || refused_by_ != nullptr) return;
    CellRef cell = CellOf(hold);
    cell.spec = &*hold.spec->prioritised;
    const CellAnswer answer = ground_.cells.Take(cell, now_, hold.cost, TakeMode::kTake,
                                                 attempt_.wait_max_, hold.receipt);
    if (answer.numbers.allowed) {
      hold.state = Hold::State::kRate;
      Passed(hold, answer.numbers);
    } else {  // somebody else was lent it since
      hold.receipt = {};
      hold.state = Refused(*hold.rule, hold.spec, answer.numbers, ReasonOf(answer, Reason::kLimit));
    }
  });
}

}  // namespace flowguard::engine
