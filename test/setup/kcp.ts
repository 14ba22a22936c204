import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { NativeConnection } from "@temporalio/worker";
import type { TestProject } from "vitest/node";
import { startLogicalClusterTestbed } from "../../testbed/logical-cluster.ts";
import { ensureSearchAttributes } from "../../workers/search-attributes.ts";

/** What tests must know of a test bed for moves of logical clusters; the rest stands in its `rehome.yaml`. */
export interface ProvidedTestbed {
  readonly rehomeConfig: string;
  readonly temporal: { readonly address: string; readonly namespace: string };
  /** Kubeconfig of the front-proxy; context `base` has no path. */
  readonly frontProxyKubeconfig: string;
  /** The servers, by the names that the test bed gives them: `etcd etcd-root`, `kcp shard-1`. */
  readonly processes: readonly { readonly name: string; readonly pid: number }[];
}

declare module "vitest" {
  export interface ProvidedContext {
    kcp: ProvidedTestbed;
  }
}

const BUNDLE = fileURLToPath(new URL("../../workers/bundle.ts", import.meta.url));

/**
 * Starts one test bed for all test files, or takes one that is up already: `REHOME_TESTBED` names the file
 * `.rehome/testbed.json` that `npm run testbed -- up logical-cluster` writes. Also bundles the workflows of today.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = process.env["REHOME_TESTBED"];
  const [bed] = await Promise.all([
    running === undefined ? start() : reuse(running),
    promisify(execFile)(process.execPath, [BUNDLE]),
  ]);
  const { address, namespace } = bed.testbed.temporal;
  const connection = await NativeConnection.connect({ address });
  try {
    await ensureSearchAttributes(connection, namespace);
  } finally {
    await connection.close();
  }
  project.provide("kcp", bed.testbed);
  return bed.stop;
}

interface Bed {
  readonly testbed: ProvidedTestbed;
  readonly stop: () => Promise<void>;
}

async function start(): Promise<Bed> {
  const dir = await mkdtemp(join(tmpdir(), "rehome-e2e-"));
  const { configFile, temporal, kcp, servers, stop } = await startLogicalClusterTestbed({ dir });
  return {
    testbed: {
      rehomeConfig: configFile,
      temporal: { address: temporal.address, namespace: temporal.namespace },
      frontProxyKubeconfig: kcp.frontProxy.kubeconfig,
      processes: servers.map(({ spec, pid }) => ({ name: spec.name, pid })),
    },
    async stop() {
      await stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function reuse(file: string): Promise<Bed> {
  const described = JSON.parse(await readFile(file, "utf8")) as ProvidedTestbed & {
    kcp: { frontProxies: { kubeconfig: string }[] };
  };
  const { rehomeConfig, temporal, processes, kcp } = described;
  const [proxy] = kcp.frontProxies;
  if (proxy === undefined) throw new Error(`${file} names no front-proxy`);
  const testbed = { rehomeConfig, temporal, processes, frontProxyKubeconfig: proxy.kubeconfig };
  return { testbed, stop: async () => undefined };
}
