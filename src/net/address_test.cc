// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include <gtest/gtest.h>

namespace flowguard::net {
namespace {

TEST(AddressTest, ReadsAndWritesBothFamilies) {
  EXPECT_EQ(Address::Parse("127.0.0.1:8080")->ToString(), "127.0.0.1:8080");
  EXPECT_EQ(Address::Parse("[::1]:443")->ToString(), "[::1]:443");
  EXPECT_EQ(Address::Parse(":0")->ToString(), "0.0.0.0:0");
  EXPECT_EQ(Address::Parse("localhost:1")->ToString(), "127.0.0.1:1");
}

TEST(AddressTest, SaysWhatIsWrongWithAText) {
  for (const char* text : {"", "8080", "host", "1.2.3.4", "1.2.3.4:", "1.2.3.4:99999", "::1:80",
                           "[::1]", "[::1", "1.2.3.4:80x", "1.2.3.4:-1", "nohost:80"}) {
    const Result<Address> address = Address::Parse(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.error().message.find("HOST:PORT"), std::string::npos);
    EXPECT_NE(address.error().message.find(std::string("\"") + text + "\""), std::string::npos);
  }
}

TEST(AddressTest, ResolvesNumericTextWithoutAResolver) {
  const Result<std::vector<Address>> found = Address::Resolve("192.0.2.7:99");
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().ToString(), "192.0.2.7:99");
  EXPECT_FALSE(Address::Resolve(":80").ok());
}

}  // namespace
}  // namespace flowguard::net
