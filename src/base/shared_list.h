// A list that copies share until one of them changes.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace rlx {

/// Reads like a std::vector. A copy costs the same for any length: reports of a template go along with every executable
/// that is made of it. Whatever may change an element makes a list of its own first; copies may be read from several
/// threads.
template <typename T>
class SharedList {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;
  using iterator = typename std::vector<T>::iterator;

  SharedList() = default;
  SharedList(std::initializer_list<T> items) : items_(std::make_shared<std::vector<T>>(items)) {}

  std::size_t size() const { return items_ == nullptr ? 0 : items_->size(); }
  bool empty() const { return size() == 0; }
  const T& operator[](std::size_t i) const { return (*items_)[i]; }
  T& operator[](std::size_t i) { return own()[i]; }
  const_iterator begin() const { return read().begin(); }
  const_iterator end() const { return read().end(); }
  iterator begin() { return own().begin(); }
  iterator end() { return own().end(); }

  void push_back(T item) { own().push_back(std::move(item)); }
  void resize(std::size_t size) { own().resize(size); }
  void erase(const_iterator at) { own().erase(at); }
  void clear() { items_.reset(); }

 private:
  const std::vector<T>& read() const {
    static const std::vector<T> none;
    return items_ == nullptr ? none : *items_;
  }
  std::vector<T>& own() {
    if (items_ == nullptr)
      items_ = std::make_shared<std::vector<T>>();
    else if (items_.use_count() > 1)
      items_ = std::make_shared<std::vector<T>>(*items_);
    return *items_;
  }

  std::shared_ptr<std::vector<T>> items_;
};

}  // namespace rlx
