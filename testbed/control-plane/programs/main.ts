/** What containers with the image `rehome-testbed` run: small programs that stand in for a landscape around the moved cluster. */
import { Command } from "commander";
import { serveConnectProxy } from "./connect-proxy.ts";
import { runController } from "./controller.ts";
import { serveEcho } from "./echo.ts";
import { parseHostPort } from "./host-port.ts";
import { controlPath } from "./path-controller.ts";
import { ping } from "./ping.ts";

const program = new Command("rehome-testbed");

/** As the first process of a container this one ends on SIGTERM only if it says so. */
const endOnRequest = <T>(action: (options: T) => Promise<void>) => {
  return async (options: T) => {
    process.once("SIGTERM", () => process.exit(0));
    await action(options);
  };
};

program
  .command("connect-proxy")
  .requiredOption("--listen <host:port>", "where VPN clients connect", parseHostPort)
  .requiredOption("--to <host:port>", "the VPN server", parseHostPort)
  .requiredOption("--destination <text>", "wanted value of the header Reversed-VPN")
  .action(endOnRequest(serveConnectProxy));
program
  .command("path-controller")
  .requiredOption("--management <socket>", "OpenVPN's management socket")
  .requiredOption("--device <name>", "the VPN server's network device")
  .requiredOption("--range <cidr>", "addresses of the pods behind the VPN clients")
  .action(endOnRequest(controlPath));
program
  .command("echo")
  .requiredOption("--listen <host:port>", "where to answer", parseHostPort)
  .requiredOption("--name <text>", "who answers")
  .action(endOnRequest(serveEcho));
program.command("ping").requiredOption("--to <host:port>", "an echo", parseHostPort).action(ping);

program
  .command("controller")
  .requiredOption("--name <name>", "of the controller and its lease")
  .requiredOption("--fence-folder <path>", "shared with instances in other seeds")
  .option("--release-on-exit", "give the lease back at the end")
  .action(runController);

await program.parseAsync();
