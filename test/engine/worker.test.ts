import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { NativeConnection } from "@temporalio/worker";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { freePort } from "../../testbed/ports.ts";
import { readBundle } from "../../workers/bundle.ts";
import { temporalTarget } from "../../workers/config.ts";
import { ensureSearchAttributes } from "../../workers/search-attributes.ts";

const BUNDLE = fileURLToPath(new URL("../../workers/bundle.ts", import.meta.url));
const WORKER = fileURLToPath(new URL("../../workers/worker.ts", import.meta.url));

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rehome-worker-"));
  await write("admin.kubeconfig", KUBECONFIG);
});
// Only read when a move is made.
const KUBECONFIG = `
apiVersion: v1
kind: Config
clusters: [{ name: root, cluster: { server: "https://127.0.0.1:1" } }]
users: [{ name: admin, user: { token: none } }]
contexts: [{ name: root, context: { cluster: root, user: admin } }]
current-context: root
`;

afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function write(name: string, text: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, text);
  return file;
}

function runNode(...words: readonly string[]): ChildProcess & { readonly lines: string[] } {
  const child = spawn(process.execPath, words, { stdio: ["ignore", "pipe", "pipe"] });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  child.stderr.pipe(process.stderr);
  return Object.assign(child, { lines });
}

async function exitOf(child: ChildProcess): Promise<unknown> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.exitCode;
}

const SITES = `
kcp:
  frontProxies:
    - kubeconfig: admin.kubeconfig
  shards:
    root:
      etcd: { endpoints: ["http://127.0.0.1:1"] }
`;

describe("the worker process", () => {
  beforeAll(async () => {
    await exitOf(runNode(BUNDLE));
  });

  test("says when it is ready, shows its health and metrics, and drains on SIGTERM", async () => {
    const { address, namespace } = inject("temporal");
    const config = await write(
      "rehome.yaml",
      `temporal: { address: "${address}", namespace: ${namespace} }\n${SITES}`,
    );
    const [health, metrics] = [await freePort(), await freePort()];
    const ports = [
      "--listen",
      "127.0.0.1",
      "--health-port",
      String(health),
      "--metrics-port",
      String(metrics),
    ];
    const worker = runNode(WORKER, "--config", config, ...ports);
    await expect.poll(() => worker.lines, { timeout: 240_000 }).toContain("ready");
    expect((await fetch(`http://127.0.0.1:${health}/healthz`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${health}/readyz`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${health}/secrets`)).status).toBe(404);
    expect(await (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text()).toContain("temporal_");
    worker.kill("SIGTERM");
    expect(await exitOf(worker)).toBe(0);
    const log = worker.lines
      .filter((line) => line !== "ready")
      .map((line) => JSON.parse(line) as { msg: string });
    expect(log.at(-1)?.msg).toBe("drained");
  });

  test("says what is wrong when Temporal does not answer", async () => {
    const config = await write(
      "nowhere.yaml",
      `temporal: { address: "127.0.0.1:${await freePort()}" }\n${SITES}`,
    );
    const worker = runNode(WORKER, "--config", config);
    expect(await exitOf(worker)).toBe(1);
    expect(worker.lines.join("\n")).toContain("Temporal does not answer at 127.0.0.1");
  });
});

test("a missing bundle is an error that says how to make one", async () => {
  await expect(readBundle(join(folder, "none.js"))).rejects.toThrow("make it with: npm run build");
});

test("search attributes are registered once, however many workers start at once", async () => {
  const { address, namespace } = inject("temporal");
  const connection = await NativeConnection.connect({ address });
  const all = [1, 2, 3].map(async () => await ensureSearchAttributes(connection, namespace));
  await expect(Promise.all(all)).resolves.toHaveLength(3);
  await connection.close();
});

describe("where Temporal is", () => {
  test("stands in rehome.yaml, with files from its folder", async () => {
    await Promise.all(["ca", "crt", "key"].map(async (name) => await write(`${name}.pem`, `${name}-bytes`)));
    await write("api-key", "secret\n");
    const config = await write(
      "tls.yaml",
      "temporal: { address: t:7233, namespace: moves, apiKeyFile: api-key, tls: { ca: ca.pem, cert: crt.pem, key: key.pem, serverName: t } }",
    );
    expect(await temporalTarget(config, {})).toEqual({
      namespace: "moves",
      connection: {
        address: "t:7233",
        apiKey: "secret",
        tls: {
          serverNameOverride: "t",
          serverRootCACertificate: Buffer.from("ca-bytes"),
          clientCertPair: { crt: Buffer.from("crt-bytes"), key: Buffer.from("key-bytes") },
        },
      },
    });
  });

  test("is overridden by the environment", async () => {
    const config = await write("plain.yaml", "temporal: { address: t:7233 }");
    const environment = { TEMPORAL_ADDRESS: "u:1", TEMPORAL_NAMESPACE: "n", TEMPORAL_API_KEY: "k" };
    expect(await temporalTarget(config, environment)).toEqual({
      namespace: "n",
      connection: { address: "u:1", apiKey: "k" },
    });
    const half = temporalTarget(config, { TEMPORAL_TLS_CERT: "crt.pem" });
    await expect(half).rejects.toThrow("give cert and key, or neither");
  });
});
