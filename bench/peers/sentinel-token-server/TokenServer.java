// SPDX-License-Identifier: Apache-2.0
//
// Sentinel's token server, standalone, with the flows "open" and "tight" of
// bench/token_bench.py: says "ready" when it accepts, and serves until it is ended.
//   java TokenServer PORT
import com.alibaba.csp.sentinel.cluster.flow.rule.ClusterFlowRuleManager;
import com.alibaba.csp.sentinel.cluster.server.SentinelDefaultTokenServer;
import com.alibaba.csp.sentinel.cluster.server.config.ClusterServerConfigManager;
import com.alibaba.csp.sentinel.cluster.server.config.ServerFlowConfig;
import com.alibaba.csp.sentinel.cluster.server.config.ServerTransportConfig;
import com.alibaba.csp.sentinel.slots.block.ClusterRuleConstant;
import com.alibaba.csp.sentinel.slots.block.flow.ClusterFlowConfig;
import com.alibaba.csp.sentinel.slots.block.flow.FlowRule;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.Socket;
import java.util.List;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;

public final class TokenServer {
  private static final String NAMESPACE = "default";
  private static final int ATTEMPTS = 200;
  private static final long PAUSE_MS = 50;
  private static final Logger NETTY = Logger.getLogger("io.netty"); // held: its level is kept

  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    System.setOut(System.err); // Sentinel says there where it logs
    NETTY.setLevel(Level.SEVERE); // it tells of each connection
    int port = Integer.parseInt(args[0]);
    // Its guard of all questions of a namespace takes what it allows when the namespace is set.
    ClusterServerConfigManager.loadGlobalFlowConfig(new ServerFlowConfig().setMaxAllowedQps(1e9));
    ClusterServerConfigManager.loadServerNamespaceSet(Set.of(NAMESPACE));
    ClusterFlowRuleManager.loadRules(NAMESPACE, List.of(flow("open", 1, 1e9), flow("tight", 2, 1000)));
    ClusterServerConfigManager.loadGlobalTransportConfig(new ServerTransportConfig().setPort(port));
    new SentinelDefaultTokenServer().start();
    if (!accepts(port)) {
      System.err.println("TokenServer: nothing listens on port " + port);
      System.exit(1);
    }
    answers.println("ready");
  }

  private static FlowRule flow(String resource, long id, double count) {
    FlowRule rule = new FlowRule(resource);
    rule.setCount(count);
    rule.setClusterMode(true);
    rule.setClusterConfig(
        new ClusterFlowConfig()
            .setFlowId(id)
            .setThresholdType(ClusterRuleConstant.FLOW_THRESHOLD_GLOBAL));
    return rule;
  }

  // It binds in the background.
  private static boolean accepts(int port) throws InterruptedException {
    for (int i = 0; i < ATTEMPTS; i++) {
      try {
        new Socket(InetAddress.getLoopbackAddress(), port).close();
        return true;
      } catch (IOException refused) {
        Thread.sleep(PAUSE_MS);
      }
    }
    return false;
  }
}
