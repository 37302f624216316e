// SPDX-License-Identifier: Apache-2.0
//
// Guava's RateLimiter.tryAcquire, measured on request: reads "THREADS" lines and
// answers "NANOSECONDS_PER_OP" a thread, all permits granted (rate 1e9/s).
import com.google.common.util.concurrent.RateLimiter;
import java.io.BufferedReader;
import java.io.InputStreamReader;

public final class GuavaBench {
  private static final long RUN_NS = 200_000_000L;

  public static void main(String[] args) throws Exception {
    RateLimiter limiter = RateLimiter.create(1e9);
    for (int i = 0; i < 5; i++) {
      measure(limiter, 1);
    }
    System.out.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(measure(limiter, Integer.parseInt(line.trim())));
    }
  }

  private static double measure(RateLimiter limiter, int threads) throws Exception {
    double[] each = new double[threads];
    Thread[] all = new Thread[threads];
    for (int t = 0; t < threads; t++) {
      int me = t;
      all[t] = new Thread(() -> each[me] = loop(limiter));
      all[t].start();
    }
    double sum = 0;
    for (int t = 0; t < threads; t++) {
      all[t].join();
      sum += each[t];
    }
    return sum / threads;
  }

  private static double loop(RateLimiter limiter) {
    long start = System.nanoTime();
    long operations = 0;
    long granted = 0;
    long now;
    do {
      for (int i = 0; i < 1000; i++) {
        if (limiter.tryAcquire()) {
          granted++;
        }
      }
      operations += 1000;
      now = System.nanoTime();
    } while (now - start < RUN_NS);
    if (granted == 0) {
      throw new IllegalStateException("nothing was granted");
    }
    return (double) (now - start) / operations;
  }
}
