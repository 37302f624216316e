# SPDX-License-Identifier: Apache-2.0
# The installed package: FlowGuard::core (standard library only), FlowGuard::text
# (adds yaml-cpp, nlohmann-json and RE2), FlowGuard::quota (adds OpenSSL), their CMake package
# and pkg-config files.
include(CMakePackageConfigHelpers)

# One archive a package target, made of the folders' objects.
function(fg_package_library name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINKS" ${ARGN})
  add_library(flowguard_${name} STATIC)
  foreach(folder ${ARG_FOLDERS})
    get_target_property(kind fg_${folder} TYPE)
    if(NOT kind STREQUAL "INTERFACE_LIBRARY")
      target_sources(flowguard_${name} PRIVATE $<TARGET_OBJECTS:fg_${folder}>)
    endif()
  endforeach()
  set_target_properties(flowguard_${name} PROPERTIES EXPORT_NAME ${name} LINKER_LANGUAGE CXX)
  target_include_directories(flowguard_${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(flowguard_${name} INTERFACE cxx_std_20)
  target_link_libraries(flowguard_${name} PUBLIC ${ARG_LINKS})
  add_library(FlowGuard::${name} ALIAS flowguard_${name})
  install(TARGETS flowguard_${name} EXPORT FlowGuardTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

fg_package_library(core FOLDERS ${FLOWGUARD_CORE_FOLDERS} LINKS Threads::Threads)
if(FLOWGUARD_TEXT)
  fg_package_library(text FOLDERS ${FLOWGUARD_TEXT_FOLDERS} LINKS flowguard_core yaml-cpp re2)
endif()
if(FLOWGUARD_QUOTA)
  find_package(OpenSSL 3 REQUIRED)
  fg_package_library(quota FOLDERS net wire quota_redis quota_scripts quota
                     LINKS flowguard_core OpenSSL::SSL OpenSSL::Crypto)
endif()

install(DIRECTORY include/flowguard DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(NOT FLOWGUARD_TEXT)
  install(CODE "file(REMOVE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/flowguard/rules_text.h\")")
endif()
if(NOT FLOWGUARD_QUOTA)
  install(CODE "file(REMOVE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/flowguard/shared.h\")")
endif()
install(EXPORT FlowGuardTargets NAMESPACE FlowGuard:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/FlowGuard)
configure_package_config_file(cmake/FlowGuardConfig.cmake.in FlowGuardConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/FlowGuard)
write_basic_package_version_file(FlowGuardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/FlowGuardConfig.cmake ${PROJECT_BINARY_DIR}/FlowGuardConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/FlowGuard)
configure_file(cmake/flowguard.pc.in flowguard.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/flowguard.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(FLOWGUARD_QUOTA)
  configure_file(cmake/flowguard-quota.pc.in flowguard-quota.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/flowguard-quota.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(TARGET flowguard)
  install(TARGETS flowguard RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
