// Copies share their elements until one of them changes.
#include "base/shared_list.h"

#include <gtest/gtest.h>

#include <string>

namespace rlx {
namespace {

TEST(SharedList, ACopySharesUntilItChanges) {
  SharedList<std::string> list;
  EXPECT_TRUE(list.empty());
  list.push_back("one");
  list.push_back("two");
  const SharedList<std::string> copy = list;
  const SharedList<std::string>& same = list;
  EXPECT_EQ(&same[0], &copy[0]);
  list[0] = "three";
  EXPECT_NE(&same[0], &copy[0]);
  EXPECT_EQ(copy[0], "one");
  EXPECT_EQ(same[0], "three");
}

TEST(SharedList, AnEmptyListHasNoElementsToWalk) {
  const SharedList<int> none;
  EXPECT_EQ(none.begin(), none.end());
  SharedList<int> list = {1, 2, 3};
  const SharedList<int> copy = list;
  list.erase(list.begin());
  list.resize(1);
  EXPECT_EQ(list.size(), 1u);
  list.clear();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(copy.size(), 3u);
}

}  // namespace
}  // namespace rlx
