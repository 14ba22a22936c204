/** A node of a test cluster: runs pods as processes and Services as rules of the kernel, in the network namespace it is started in. */
import { once } from "node:events";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { Command } from "commander";
import { DeviceAddresses, parseRange, PodAddresses } from "./addresses.ts";
import type { AddressRange } from "./addresses.ts";
import { connectToApi } from "./api.ts";
import { followClaims } from "./claims.ts";
import { keepNode } from "./node.ts";
import { Programs } from "./programs.ts";
import type { ProgramTable } from "./programs.ts";
import { Runner } from "./runner.ts";
import { Services } from "./services.ts";
import { tell, wordsOf } from "./tell.ts";

interface Flags {
  readonly kubeconfig: string;
  readonly node: string;
  readonly address: string;
  readonly dir: string;
  readonly programs: string;
  readonly pods: AddressRange;
  readonly loadBalancers: AddressRange;
  readonly nft: string;
  readonly device: string;
  readonly dns?: string;
  readonly hostPath: readonly string[];
}

/** What is left of a stop's time must suffice to kill what does not end by itself. */
const stopGraceMs = 3_000;

/**
 * Kubelets give up a connection that answers no ping for 45 s (client-go, HTTP/2 health check). This one speaks HTTP/1.1,
 * so the kernel has to notice it, in the network namespace of the node.
 */
const DEAD_CONNECTIONS = { tcp_keepalive_intvl: 5, tcp_keepalive_probes: 3, tcp_retries2: 7 };

async function noticeDeadConnections(): Promise<void> {
  for (const [name, value] of Object.entries(DEAD_CONNECTIONS)) {
    const file = `/proc/sys/net/ipv4/${name}`;
    await writeFile(file, String(value)).catch((error: unknown) => {
      tell(`a dead connection is noticed late: ${wordsOf(error)}`);
    });
  }
}

async function run(flags: Flags): Promise<void> {
  const stopped = Promise.race((["SIGTERM", "SIGINT"] as const).map((signal) => once(process, signal)));
  const dir = resolve(flags.dir);
  const readyFile = join(dir, "ready");
  await mkdir(dir, { recursive: true });
  await rm(readyFile, { force: true });
  await noticeDeadConnections();
  const api = connectToApi(flags.kubeconfig, flags.dns);
  const device = new DeviceAddresses(flags.device);
  const addresses = new PodAddresses(device, flags.pods);
  await addresses.clear();
  const table = JSON.parse(await readFile(flags.programs, "utf8")) as ProgramTable;
  const folders = { claims: join(dir, "claims"), volatile: join(dir, "volatile"), pods: join(dir, "pods") };
  const runner = new Runner(
    {
      api,
      addresses,
      programs: await Programs.create(join(dir, "bin"), table, flags.hostPath),
      hostIP: flags.address,
      nameServer: nameServerOf(flags.dns),
      folders,
    },
    flags.node,
  );
  const services = new Services({
    api,
    nft: flags.nft,
    device,
    ingressRange: flags.loadBalancers,
    nodeAddress: flags.address,
  });
  const start = async (): Promise<void> => {
    await keepNode(api, { name: flags.node, address: flags.address });
    await Promise.all([services.start(), followClaims(api, folders.claims)]);
    await runner.start();
    await writeFile(readyFile, String(process.pid));
    tell(`node ${flags.node} is ready`);
  };
  await Promise.race([start().then(() => stopped), stopped]);
  tell("stopping");
  await rm(readyFile, { force: true });
  await runner.stop(stopGraceMs);
  process.exit(0);
}

/** A resolver of a pod always asks port 53: a server elsewhere is for this process only. */
function nameServerOf(dns: string | undefined): string | undefined {
  const [address, port = "53"] = dns?.split(":") ?? [];
  return port === "53" ? address : undefined;
}

const command = new Command("node")
  .requiredOption("--kubeconfig <file>", "how to reach the API server")
  .requiredOption("--node <name>", "name of the node to be")
  .requiredOption("--address <ip>", "address of the node in this network namespace")
  .requiredOption("--dir <folder>", "where claims, logs and mount points are kept")
  .requiredOption("--programs <file>", "JSON: image name to absolute path, or to an object of name and path")
  .requiredOption("--pods <range>", "addresses for pods, e.g. 10.75.1.128-254", parseRange)
  .requiredOption("--load-balancers <range>", "addresses for Services of type LoadBalancer", parseRange)
  .requiredOption("--nft <file>", "absolute path of nft")
  .option("--device <name>", "network device to which addresses are added", "lo")
  .option(
    "--dns <address:port>",
    "server that resolves the API server's name; pods ask it too if it is on port 53",
  )
  .option("--host-path <folders...>", "folders on other file systems that containers must see", [])
  .action(run);
await command.parseAsync();
