# SPDX-License-Identifier: Apache-2.0
# Puts the scripts together and writes them as C++ constants with their SHA-1.
#   cmake -DFROM=folder of the .lua files -DTO=scripts.cc -P embed.cmake

# Redis is sent the code alone: lines that are comments stay here.
function(read_code out)
  set(code "")
  foreach(name ${ARGN})
    file(READ ${FROM}/${name}.lua text)
    string(REGEX REPLACE "\n *--[^\n]*" "" text "\n${text}")
    string(APPEND code "${text}")
  endforeach()
  string(REGEX REPLACE "\n\n+" "\n" code "${code}")
  string(REGEX REPLACE "^\n" "" code "${code}")
  set(${out} "${code}" PARENT_SCOPE)
endfunction()

function(emit constant name code)
  string(SHA1 sha1 "${code}")
  file(APPEND ${TO} "const redis::Script ${constant}{\n    \"${name}\",\n    R\"lua(${code})lua\",\n    \"${sha1}\"};\n\n")
endfunction()

# The files that say what one algorithm's cell is, by the letters of its keys.
set(files_tb arrival_time token_bucket)
set(files_lb arrival_time leaky_bucket)
set(files_sl sliding_log)
set(files_sb sliding_buckets)
set(files_sw window_pair sliding_window)
set(files_wa window_pair weighted_average)
set(files_fw fixed_window)
set(files_co concurrency)

file(WRITE ${TO} "// SPDX-License-Identifier: Apache-2.0\n// Written by embed.cmake.\n#include \"quota/scripts/scripts.h\"\n\nnamespace flowguard::quota::scripts {\n\n")
read_code(code token_bucket_take)
emit(kTokenBucketTake "token_bucket_take" "${code}")
read_code(code buckets_take)
emit(kBucketsTake "buckets_take" "${code}")
read_code(code zset_log)
emit(kZsetLog "zset_log" "${code}")
foreach(letters tb lb sb sw fw wa sl co)
  list(GET files_${letters} -1 name)
  string(TOUPPER ${letters} upper)
  read_code(head prelude ${files_${letters}})
  read_code(tail steps single)
  emit(kSingle${upper} "${name}" "${head}local cell = cells.${letters}()\n${tail}")
  if(NOT letters MATCHES "sl|co")
    read_code(tail lease)
    emit(kLease${upper} "${name}_lease" "${head}local cell = cells.${letters}()\n${tail}")
  endif()
endforeach()
read_code(code prelude arrival_time token_bucket leaky_bucket sliding_log sliding_buckets
          window_pair sliding_window weighted_average fixed_window concurrency steps multi)
emit(kMulti "multi" "${code}")
file(APPEND ${TO} "}  // namespace flowguard::quota::scripts\n")
