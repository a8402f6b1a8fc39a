// Worker threads that share out the items of one job at a time. Header only, no dependency on Stan, so that
// any native kernel of the library can use the same threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace dais {

class Pool {
 public:
  // The one pool of this process. A forked child has none of its parent's threads, so it starts a pool anew.
  static Pool& shared() {
    static const int registered = pthread_atfork(nullptr, nullptr, [] { current().store(nullptr); });
    (void)registered;
    Pool* pool = current().load();
    if (pool == nullptr) {
      Pool* fresh = new Pool;  // never destroyed: its threads may outlive static destruction
      if (current().compare_exchange_strong(pool, fresh)) return *fresh;
      delete fresh;
    }
    return *pool;
  }

  // Calls body(begin, end) over disjoint ranges of at most `grain` items that cover [0, n), on the calling
  // thread and up to threads - 1 workers. A job that comes while another one runs (from a second thread of
  // the program, or from within a body) is done by its caller alone. body must not throw.
  template <class Body>
  void run(long n, long grain, int threads, Body& body) {
    if (threads < 2 || n <= grain || busy_.test_and_set(std::memory_order_acquire)) {
      if (n > 0) body(0L, n);
      return;
    }
    Job job(n, grain, threads - 1, &body,
            [](void* b, long begin, long end) { (*static_cast<Body*>(b))(begin, end); });
    grow(threads - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = &job;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    job.work();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job_ = nullptr;  // from here on no worker can join the job, which lives on this stack
    }
    wait_for(job.workers);
    busy_.clear(std::memory_order_release);
  }

 private:
  struct Job {
    Job(long n, long grain, int seats, void* body, void (*call)(void*, long, long))
        : n(n), grain(grain), seats(seats), body(body), call(call) {}

    void work() {
      for (long begin = next.fetch_add(grain); begin < n; begin = next.fetch_add(grain))
        call(body, begin, std::min(begin + grain, n));
    }

    const long n, grain;
    int seats;  // how many more workers may join; guarded by the pool's mutex
    void* const body;
    void (*const call)(void*, long, long);
    std::atomic<long> next{0};
    std::atomic<int> workers{0};
  };

  // A worker looks for the next job this long before it sleeps: optimisers send jobs close together, and
  // waking a sleeping thread takes as long as a small job.
  static constexpr std::chrono::microseconds kSpin{50};

  static std::atomic<Pool*>& current() {
    static std::atomic<Pool*> pool{nullptr};
    return pool;
  }

  // The last share of a worker is done soon, so its caller keeps its processor at first; on a crowded machine
  // the worker may have lost its own, and then needs this one.
  static void wait_for(const std::atomic<int>& workers) {
    const auto patience = std::chrono::steady_clock::now() + kSpin;
    while (workers.load(std::memory_order_acquire) > 0)
      if (std::chrono::steady_clock::now() > patience) std::this_thread::yield();
  }

  // Only the job that holds busy_ gets here, so workers_ needs no lock of its own.
  void grow(int wanted) {
    if (workers_ >= wanted) return;
    sigset_t all, before;  // signals stay with the program's own threads: Ctrl-C must reach Python
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (; workers_ < wanted; ++workers_)
        std::thread(&Pool::serve, this, generation_.load()).detach();
    } catch (const std::system_error&) {
      // no more threads to be had: the job runs on those there are
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void serve(unsigned long seen) {
    for (;;) {
      const auto deadline = std::chrono::steady_clock::now() + kSpin;
      while (generation_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
      Job* job;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load() != seen; });
        seen = generation_.load();
        job = job_;
        if (job == nullptr || job->seats == 0) continue;
        --job->seats;
        job->workers.fetch_add(1);
      }
      job->work();
      job->workers.fetch_sub(1, std::memory_order_release);
    }
  }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<unsigned long> generation_{0};
  Job* job_ = nullptr;
  int workers_ = 0;
};

}  // namespace dais
