// SPDX-License-Identifier: Apache-2.0
//
// Rules and dimensions from nodes to the model.  Shapes, words and ranges are
// checked here, where their places are known; what fits with what is checked by
// rules::Compile, for programs as well as for files.
#pragma once

#include "flowguard/rule.h"

#include "dialects/fields.h"

namespace flowguard::dialects {

// The list under `rules`.  Faults are noted, and the other fields read on.
void ReadRules(const Value& value, std::vector<Rule>& rules);

// The map under `dimensions`.
void ReadDimensions(const Value& value, std::vector<DimensionSpec>& dimensions);

// What a rule is on; src/dialects/target_reader.cc.
void ReadTarget(const Value& value, Target& target);
void ReadRelation(const Value& value, std::string& relate_to);
// {DIMENSION: [value, ...], ...}; false when it is no map.
bool ReadValuesByDimension(const Value& value, std::vector<ValuesOf>& lists);
// The map under `system`; src/dialects/system_reader.cc.
void ReadSystem(const Value& value, SystemRule& system);

// The actions of a rule; src/dialects/action_reader.cc.
void ReadRefuse(const Value& value, Refuse& refuse);
void ReadDegrade(const Value& value, Degrade& degrade);

}  // namespace flowguard::dialects
