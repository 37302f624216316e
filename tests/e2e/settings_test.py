# SPDX-License-Identifier: Apache-2.0
"""Which setting counts when several are given."""
import re

import harness

CONFIG = """
gateway: {listen: "127.0.0.1:0", upstream: ["http://127.0.0.1:9"]}
admin: {listen: "127.0.0.1:0"}
cells: {capacity: 1000}
rules: []
"""


class Settings(harness.Case):
    def capacity(self, *flags, env=None):
        path = self.write("flowguard.yaml", CONFIG)
        server = harness.FlowGuard("--config", path, *flags, env=env)
        try:
            metrics = harness.ask(server.admin, "/metrics").body
            return int(re.search(r"flowguard_cells_capacity (\d+)", metrics).group(1))
        finally:
            server.end()

    def test_flag_goes_before_variable_before_file(self):
        variable = {"FLOWGUARD_CELLS": "2000"}

        self.assertEqual(self.capacity(), 1000)
        self.assertEqual(self.capacity(env=variable), 2000)
        self.assertEqual(self.capacity("--cells", "3000", env=variable), 3000)

    def test_a_limit_of_zero_on_the_command_line_counts_as_set(self):
        server = self.start(harness.FlowGuard("--upstream", "http://127.0.0.1:9", "--limit", "0",
                                              env={"FLOWGUARD_LIMIT": "100/s"}))

        self.assertEqual(harness.ask(server.gateway).status, 429)

    def test_a_variable_that_is_empty_is_an_error_that_names_it(self):
        code, _, err = harness.run_once("run", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0",
                                        "--admin", "off", env={"FLOWGUARD_CELLS": ""})

        self.assertNotEqual(code, 0)
        self.assertRegex(err, "(?i)cells")


if __name__ == "__main__":
    harness.main()
