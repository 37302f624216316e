// SPDX-License-Identifier: Apache-2.0
#include "quota/token/link.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace flowguard::quota::token {

using wire::token::Answer;
using wire::token::Frame;
using wire::token::Type;

namespace {

// Sentinel's server takes 1 to this.
constexpr int32_t kXidMax = 999'999'999;
constexpr int32_t kPingXid = 0;
constexpr int32_t kTurns = (kXidMax - 1) / static_cast<int32_t>(base::kTokenAsksMax);

}  // namespace

Link::Link(net::Loop& loop, const LinkOptions& options, LinkOwner& owner, uint64_t seed)
    : loop_(loop),
      options_(options),
      owner_(owner),
      resolver_(loop, *this),
      backoff_(seed),
      state_timer_([](void* self) noexcept { static_cast<Link*>(self)->OnStateTimer(); }, this),
      deadline_timer_([](void* self) noexcept { static_cast<Link*>(self)->OnDeadlineTimer(); },
                      this) {}

Link::~Link() {
  loop_.Forget(*this);
}

// --- connecting

void Link::Start() {
  if (state_ == State::kIdle) Connect();
}

void Link::Connect() {
  ++attempts_;
  // Not from the time of the turn: the first attempt may come long before the first turn.
  loop_.Arm(state_timer_, loop_.clock().Now() + options_.connect_timeout);
  const Result<net::Address> address = net::Address::Parse(options_.endpoint);
  if (address.ok()) return Use(net::Connect(*address));
  state_ = State::kResolving;
  resolver_.Start(options_.endpoint);
}

void Link::OnResolved(const std::vector<net::Address>& found) noexcept {
  if (found.empty()) return Close("the host's name has no address");
  Use(net::Connect(found[attempts_ % found.size()]));
}

void Link::Use(net::Fd fd) {
  state_ = State::kConnecting;
  if (!fd) return Close("the connection was refused");
  if (!loop_.Watch(fd.get(), *this)) return Close("the connection cannot be watched");
  fd_ = std::move(fd);
}

void Link::OnConnected() {
  if (!net::ConnectSucceeded(fd_.get()) || net::IsSelfConnected(fd_.get()))
    return Close("the connection was refused");
  state_ = State::kGreeting;
  net::NoticeLostPeer(fd_.get());
  Ping(kPingXid);
}

// Any answer tells that the server is there: to a ping without a name as well.
void Link::Ping(int32_t xid) noexcept {
  wire::token::AppendPing(xid, options_.name_space, out_);
  AskForFlush();
}

void Link::Probe() noexcept {
  probe_xid_ = probe_xid_ == std::numeric_limits<int32_t>::min() ? -1 : probe_xid_ - 1;
  probed_at_ = loop_.Now();
  Ping(probe_xid_);
}

void Link::OnPong(const Answer& answer) noexcept {
  const bool in_time = loop_.Now() - probed_at_ <= options_.probe_timeout;
  if (state_ == State::kBroken && answer.xid == probe_xid_ && in_time) BecomeReady();
  if (!options_.name_space.empty() && answer.status == wire::token::Status::kOk &&
      answer.remaining > 0) {
    owner_.OnClients(*this, answer.remaining);
  }
}

void Link::BecomeReady() noexcept {
  missed_ = 0;
  state_ = State::kReady;
  ready_since_ = loop_.Now();
  loop_.ArmAfter(state_timer_, options_.register_every);
  owner_.OnUp(*this);
}

void Link::Close(std::string_view problem) noexcept {
  const bool was_ready = state_ == State::kReady;
  if (was_ready && loop_.Now() - ready_since_ >= kGoodLife) backoff_.Reset();
  CloseQuietly();
  state_ = State::kWaiting;
  loop_.ArmAfter(state_timer_, backoff_.Next());
  LoseAll();
  if (was_ready || attempts_ == 1) owner_.OnDown(*this, problem);
}

void Link::CloseQuietly() noexcept {
  loop_.Forget(*this);
  resolver_.Cancel();
  state_timer_.Disarm();
  deadline_timer_.Disarm();
  fd_.Close();
  out_.clear();
  in_.clear();
  sent_ = 0;
  flush_asked_ = blocked_ = false;
  missed_ = 0;
}

void Link::LoseAll() noexcept {
  // Nothing is taken in this state, so the list only shrinks.
  while (oldest_ != kNone) {
    const uint64_t ticket = asked_[oldest_].ticket;
    Delist(oldest_);
    owner_.OnAnswer(ticket, nullptr);
  }
}

void Link::OnStateTimer() noexcept {
  switch (state_) {
    case State::kIdle:
      return;
    case State::kWaiting:
      return Connect();
    case State::kResolving:
    case State::kConnecting:
    case State::kGreeting:
      return Close("it took longer than the time to connect");
    case State::kReady:
      // Registers anew, and hears how many clients there are; and is not quiet for long, which
      // what stands between may not bear.
      Ping(kPingXid);
      loop_.ArmAfter(state_timer_, options_.register_every);
      return;
    case State::kBroken:
      if (loop_.Now() - silent_since_ > base::kTokenOverdueMax) return Close("it answers nothing");
      Probe();
      probe_wait_ = std::min(2 * probe_wait_, kProbeMax);
      loop_.ArmAfter(state_timer_, probe_wait_);
      return;
  }
}

// --- asking

bool Link::Ask(const LinkQuestion& question, Instant deadline, uint64_t ticket) noexcept {
  if (!ready() || !HasRoom() || pending_ == base::kTokenAsksMax) return false;
  const uint32_t place = Enlist(deadline, ticket);
  const int32_t xid = asked_[place].xid;
  switch (question.type) {
    case Type::kParamFlow:
      value_.clear();
      wire::token::AppendStringValue(question.text, value_);
      wire::token::AppendParamFlow(xid, question.flow_id, question.count, {value_, 1}, out_);
      break;
    case Type::kConcurrentAcquire:
      wire::token::AppendConcurrentAcquire(xid, question.flow_id, question.count, out_);
      break;
    default:
      wire::token::AppendFlow(xid, question.flow_id, question.count, question.priority, out_);
  }
  Add(metrics_.asked);
  AskForFlush();
  return true;
}

bool Link::Release(int64_t token_id) noexcept {
  const bool connected = state_ == State::kReady || state_ == State::kBroken;
  if (!connected || !HasRoom()) return false;
  wire::token::AppendConcurrentRelease(kPingXid, token_id, out_);
  AskForFlush();
  return true;
}

uint32_t Link::Enlist(Instant deadline, uint64_t ticket) noexcept {
  if (free_ == kNone) {
    asked_.emplace_back();
    free_ = static_cast<uint32_t>(asked_.size() - 1);
  }
  const uint32_t place = free_;
  Asked& asked = asked_[place];
  free_ = asked.behind;
  // Behind those that end no later: mostly the last.
  uint32_t before = newest_;
  while (before != kNone && asked_[before].deadline > deadline)
    before = asked_[before].before;
  const uint32_t behind = before == kNone ? oldest_ : asked_[before].behind;
  asked = {.ticket = ticket,
           .deadline = deadline,
           .xid = NextXid(place),
           .patient = deadline - loop_.Now() >= options_.patience,
           .before = before,
           .behind = behind};
  (before == kNone ? oldest_ : asked_[before].behind) = place;
  (behind == kNone ? newest_ : asked_[behind].before) = place;
  ++pending_;
  if (oldest_ == place) loop_.Arm(deadline_timer_, deadline);
  return place;
}

void Link::Delist(uint32_t place) noexcept {
  Asked& asked = asked_[place];
  (asked.before == kNone ? oldest_ : asked_[asked.before].behind) = asked.behind;
  (asked.behind == kNone ? newest_ : asked_[asked.behind].before) = asked.before;
  asked = {.xid = 0, .before = kNone, .behind = free_};
  free_ = place;
  --pending_;
}

// A place of the table and a turn, so that a late answer meets another xid than its own.
int32_t Link::NextXid(uint32_t place) noexcept {
  turn_ = (turn_ + 1) % kTurns;
  return turn_ * static_cast<int32_t>(base::kTokenAsksMax) + static_cast<int32_t>(place) + 1;
}

void Link::OnDeadlineTimer() noexcept {
  const Instant now = loop_.Now();
  while (oldest_ != kNone && asked_[oldest_].deadline <= now) {
    const Asked ended = asked_[oldest_];
    Delist(oldest_);
    Missed(ended.patient);
    owner_.OnAnswer(ended.ticket, nullptr);
  }
  if (oldest_ != kNone) loop_.Arm(deadline_timer_, asked_[oldest_].deadline);
}

void Link::Missed(bool patient) noexcept {
  Add(metrics_.missed);
  if (!patient || ++missed_ < options_.break_after || state_ != State::kReady) return;
  state_ = State::kBroken;
  silent_since_ = loop_.Now();
  Add(metrics_.broken);
  // One that answers pings and nothing else is asked more and more seldom.
  const bool lived = loop_.Now() - ready_since_ >= kGoodLife;
  probe_wait_ = lived ? kProbeFirst : std::clamp(2 * probe_wait_, kProbeFirst, kProbeMax);
  loop_.ArmAfter(state_timer_, probe_wait_);
  owner_.OnDown(*this, "it does not answer in time");
}

// --- sending and receiving

void Link::AskForFlush() noexcept {
  if (flush_asked_ || blocked_) return;
  flush_asked_ = true;
  loop_.AtTurnEnd(*this);
}

void Link::OnTurnEnd() noexcept {
  flush_asked_ = false;
  Flush();
}

void Link::Flush() noexcept {
  while (sent_ < out_.size()) {
    const net::IoResult result = net::Send(fd_.get(), out_.data() + sent_, out_.size() - sent_);
    if (result.status == net::IoStatus::kWouldBlock) {
      blocked_ = true;
      out_.erase(0, std::exchange(sent_, 0));
      return;
    }
    if (result.status != net::IoStatus::kOk) return Close("the connection was lost");
    sent_ += result.bytes;
  }
  out_.clear();
  sent_ = 0;
}

void Link::OnReady(net::Ready ready) noexcept {
  if (state_ == State::kConnecting) {
    if (ready.writable || ready.broken) OnConnected();
    if (state_ != State::kGreeting) return;
  }
  if (!fd_) return;
  if (blocked_ && ready.writable) {
    blocked_ = false;
    Flush();
  }
  if (fd_ && (ready.readable || ready.broken)) Receive();
}

void Link::Receive() noexcept {
  std::array<char, kReadBytes> buffer;
  while (fd_) {
    const net::IoResult result = net::Receive(fd_.get(), buffer);
    if (result.status == net::IoStatus::kWouldBlock) return;
    if (result.status != net::IoStatus::kOk) return Close("the server closed the connection");
    in_.append(buffer.data(), result.bytes);
    if (!ReadAnswers()) return;
  }
}

bool Link::ReadAnswers() noexcept {
  size_t begin = 0;
  for (;;) {
    const Frame frame = wire::token::ReadFrame(std::string_view(in_).substr(begin));
    if (frame.kind == Frame::Kind::kNeedMore) break;
    if (frame.kind == Frame::Kind::kTooLong) {
      Close("what came is no answer of a token server");
      return false;
    }
    begin += frame.size;
    OnAnswerRead(wire::token::ReadAnswer(frame.message));
    if (!fd_) return false;
  }
  in_.erase(0, begin);
  return true;
}

void Link::OnAnswerRead(const Answer& answer) noexcept {
  silent_since_ = loop_.Now();
  if (state_ == State::kGreeting) {
    Add(metrics_.connects);
    BecomeReady();
  }
  // One of another form answers nobody: its question is not answered in time.
  if (!answer.good || answer.type == static_cast<int8_t>(Type::kConcurrentRelease)) return;
  if (answer.type == static_cast<int8_t>(Type::kPing)) return OnPong(answer);
  const uint32_t place =
      answer.xid > 0 ? static_cast<uint32_t>(answer.xid - 1) % base::kTokenAsksMax : kNone;
  if (place >= asked_.size() || asked_[place].xid != answer.xid) {
    Add(metrics_.late);
    // Nobody holds it: it would be taken for as long as it may live.
    if (answer.status == wire::token::Status::kOk && answer.token_id != 0)
      static_cast<void>(Release(answer.token_id));
    return;
  }
  const uint64_t ticket = asked_[place].ticket;
  Delist(place);
  missed_ = 0;
  Add(metrics_.answered);
  owner_.OnAnswer(ticket, &answer);
}

}  // namespace flowguard::quota::token
