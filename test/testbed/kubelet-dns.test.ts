import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Node } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connectToApi, lookupAt } from "../../testbed/kubelet/api.ts";
import { follow } from "../../testbed/kubelet/follow.ts";
import { writeKubeconfig } from "../../testbed/kubeconfig.ts";
import { freePort } from "../../testbed/ports.ts";
import { Server } from "../../testbed/process.ts";
import { findDebianProgram } from "../../testbed/programs/debian.ts";
import { apiServerName, startSmallCluster } from "./kubelet-cluster.ts";
import type { SmallCluster } from "./kubelet-cluster.ts";

/** BIND with one zone that holds the name of the API server, with TTL 0. */
async function startBind(dir: string, port: number, address: string): Promise<Server> {
  await mkdir(dir, { recursive: true });
  const zone = apiServerName.slice(apiServerName.indexOf(".") + 1);
  const configuration = [
    `options { directory "${dir}"; pid-file none; session-keyfile none; recursion no; dnssec-validation no;`,
    `  listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; }; };`,
    "controls { };",
    `zone "${zone}" { type primary; file "zone"; };`,
  ];
  const file = join(dir, "named.conf");
  await writeFile(file, configuration.join("\n"));
  await writeZone(dir, 1, address);
  const server = new Server({
    name: "named",
    command: await findDebianProgram("named"),
    arguments: ["-g", "-n", "1", "-c", file],
    logFile: join(dir, "named.log"),
    probe: async () => void (await addressOf(port)),
  });
  return await server.start();
}

async function writeZone(dir: string, serial: number, address: string): Promise<void> {
  const records = [
    "$TTL 0",
    `@ SOA ns hostmaster ${serial} 60 60 60 0`,
    "@ NS ns",
    "ns A 127.0.0.1",
    `api A ${address}`,
  ];
  await writeFile(join(dir, "zone"), `${records.join("\n")}\n`);
}

async function addressOf(port: number): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  lookupAt(`127.0.0.1:${port}`)(apiServerName, {}, (error, address) =>
    error === null ? resolve(address as string) : reject(error),
  );
  return await promise;
}

describe("a node whose API server moves", () => {
  let dir: string;
  let cluster: SmallCluster;
  let named: Server;
  let port: number;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "kubt-"));
    cluster = await startSmallCluster(dir, 91);
    port = await freePort();
    // Nothing listens there on the API server's port.
    named = await startBind(join(dir, "named"), port, "127.0.0.1");
  });

  afterAll(async () => {
    await named?.stop();
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it("finds it by its name as soon as the record is right", async () => {
    const url = `https://${apiServerName}:6443`;
    const kubeconfig = await writeKubeconfig(
      join(dir, "by-name.kubeconfig"),
      { cluster: url },
      cluster.admin,
    );
    const api = connectToApi(kubeconfig, `127.0.0.1:${port}`);
    await expect(api.core.listNode()).rejects.toThrow("fetch failed");
    const changed = Promise.withResolvers<V1Node>();
    const nodes = follow<V1Node>(api.config, {
      path: "/api/v1/nodes",
      list: () => api.core.listNode(),
      onChange: changed.resolve,
      onDelete: () => undefined,
    });
    await writeZone(join(dir, "named"), 2, cluster.address);
    named.signal("SIGHUP");
    expect((await changed.promise).metadata?.name).toBe("node-1");
    expect((await nodes).list()).toHaveLength(1);
    expect(await addressOf(port)).toBe(cluster.address);
  });
});
