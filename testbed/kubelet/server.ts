import { readFile, writeFile } from "node:fs/promises";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { ServerSpec } from "../process.ts";
import type { ProgramTable } from "./programs.ts";

export interface KubeletOptions {
  /** Network namespace to run in. */
  readonly namespace: string;
  readonly kubeconfig: string;
  /** Name of the node. */
  readonly node: string;
  /** Address of the node in its network namespace. */
  readonly address: string;
  /** Where claims, logs and mount points are kept; must be on a disk, not in memory, to hold data of etcd. */
  readonly dir: string;
  readonly programs: ProgramTable;
  /** E.g. `10.75.1.128-254`. */
  readonly pods: string;
  /** E.g. `10.75.1.16-63`. */
  readonly loadBalancers: string;
  /** Absolute path of `nft`. */
  readonly nft: string;
  /** `address:port`, as seen from the namespace. */
  readonly dns?: string;
  /** Folders on other file systems than the root that containers must see. */
  readonly hostPaths?: readonly string[];
}

/** How to start the node of a test cluster. It is ready when it is registered and follows its pods. */
export async function kubeletServer(options: KubeletOptions): Promise<ServerSpec> {
  const { dir, namespace, dns, hostPaths = [] } = options;
  mkdirSync(dir, { recursive: true });
  const programs = join(dir, "programs.json");
  await writeFile(programs, JSON.stringify(options.programs));
  const flags = [
    `--kubeconfig=${options.kubeconfig}`,
    `--node=${options.node}`,
    `--address=${options.address}`,
    `--dir=${dir}`,
    `--programs=${programs}`,
    `--pods=${options.pods}`,
    `--load-balancers=${options.loadBalancers}`,
    `--nft=${options.nft}`,
    ...(dns === undefined ? [] : [`--dns=${dns}`]),
    ...(hostPaths.length === 0 ? [] : ["--host-path", ...hostPaths]),
  ];
  const main = join(import.meta.dirname, "main.ts");
  const logFile = join(dir, "kubelet.log");
  return {
    name: `node ${options.node}`,
    command: "ip",
    arguments: ["netns", "exec", namespace, process.execPath, main, ...flags],
    logFile,
    probe: async () => void (await readFile(join(dir, "ready"))),
    readyWithinMs: 240_000,
  };
}
