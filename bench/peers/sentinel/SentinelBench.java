// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's SphU.entry and exit, measured on request: reads "CASE THREADS" lines and answers
// nanoseconds an entry and thread.  bench/engine/engine_bench.cc has the same cases.
import com.alibaba.csp.sentinel.Entry;
import com.alibaba.csp.sentinel.SphU;
import com.alibaba.csp.sentinel.slots.block.BlockException;
import com.alibaba.csp.sentinel.slots.block.RuleConstant;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRule;
import com.alibaba.csp.sentinel.slots.block.degrade.DegradeRuleManager;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRuleManager;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

public final class SentinelBench {
  private static final long RUN_NS = 200_000_000L;
  private static final int SLICE = 1000;
  private static final int RESOURCES = 1000;

  // What each case's threads go through, one after the other; the rules of all are loaded.
  private static final Map<String, String[]> CASES =
      Map.of(
          "none", new String[] {"none"},
          "accept", new String[] {"accept"},
          "reject", new String[] {"reject"},
          "breaker", new String[] {"breaker"},
          "thousand", names());

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err); // Sentinel says there where it logs
    load();
    for (int i = 0; i < 5; i++) {
      for (String[] resources : CASES.values()) {
        measure(resources, 1);
      }
    }
    answers.println("ready");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.trim().split(" ");
      answers.println(measure(CASES.get(words[0]), Integer.parseInt(words[1])));
    }
    System.exit(0); // its metric log has threads that go on
  }

  private static String[] names() {
    String[] names = new String[RESOURCES];
    for (int i = 0; i < RESOURCES; i++) {
      names[i] = "resource-" + i;
    }
    return names;
  }

  private static void load() {
    List<FlowRule> rules = new ArrayList<>();
    for (String accepting : new String[] {"accept", "breaker"}) {
      rules.add(flow(accepting, 1e9));
    }
    rules.add(flow("reject", 1));
    for (String resource : CASES.get("thousand")) {
      rules.add(flow(resource, 1e9));
    }
    FlowRuleManager.loadRules(rules);
    DegradeRule slow = new DegradeRule("breaker");
    slow.setGrade(RuleConstant.DEGRADE_GRADE_RT);
    slow.setCount(1000);
    slow.setSlowRatioThreshold(0.5);
    slow.setMinRequestAmount(5);
    slow.setStatIntervalMs(1000);
    slow.setTimeWindow(5);
    DegradeRuleManager.loadRules(List.of(slow));
  }

  private static FlowRule flow(String resource, double count) {
    FlowRule rule = new FlowRule(resource);
    rule.setGrade(RuleConstant.FLOW_GRADE_QPS);
    rule.setCount(count);
    return rule;
  }

  private static double measure(String[] resources, int threads) throws Exception {
    double[] each = new double[threads];
    Thread[] all = new Thread[threads];
    for (int t = 0; t < threads; t++) {
      int me = t;
      all[t] = new Thread(() -> each[me] = loop(resources, me * resources.length / 2));
      all[t].start();
    }
    double sum = 0;
    for (int t = 0; t < threads; t++) {
      all[t].join();
      sum += each[t];
    }
    return sum / threads;
  }

  private static double loop(String[] resources, int begin) {
    long start = System.nanoTime();
    long operations = 0;
    long passed = 0;
    int at = begin;
    long now;
    do {
      for (int i = 0; i < SLICE; i++) {
        String resource = resources[at % resources.length];
        at = at + 1 == resources.length ? 0 : at + 1;
        Entry entry = null;
        try {
          entry = SphU.entry(resource);
          passed++;
        } catch (BlockException refused) {
          operations++;
        } finally {
          if (entry != null) {
            entry.exit();
          }
        }
      }
      now = System.nanoTime();
    } while (now - start < RUN_NS);
    return (double) (now - start) / (operations + passed);
  }
}
