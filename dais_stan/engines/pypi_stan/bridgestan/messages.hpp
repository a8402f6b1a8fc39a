// Where a program's print statements go: collected for each call, then handed over in one piece.
#ifndef DAIS_STAN_MESSAGES_HPP
#define DAIS_STAN_MESSAGES_HPP

#include "bridge.hpp"

#include <atomic>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>

namespace bridge {

inline std::atomic<bs_print_callback> print_callback{nullptr};

// The stream for one call. The string stream behind it is made once a thread, since making one takes longer
// than the gradient of a small model.
class Messages {
 public:
  ~Messages() {
    if (stream().tellp() <= 0) return;
    const std::string text = stream().str();
    stream().str("");
    static std::mutex one_at_a_time;
    std::lock_guard<std::mutex> guard(one_at_a_time);
    if (bs_print_callback callback = print_callback)
      callback(text.data(), static_cast<int>(text.size()));
    else
      std::cout << text << std::flush;
  }
  std::ostream* get() { return &stream(); }

 private:
  static std::ostringstream& stream() {
    thread_local std::ostringstream stream;
    return stream;
  }
};

}  // namespace bridge

#endif
