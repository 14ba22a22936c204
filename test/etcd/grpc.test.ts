import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { Server as TcpServer, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { GRPCDeadlineExceededError, GRPCInvalidArgumentError, GRPCUnavailableError } from "etcd3";
import { afterAll, beforeAll, expect, it } from "vitest";
import { GrpcClient } from "../../etcd/grpc.ts";
import { decodeRange, decodeTxn, encodeRange, encodeTxn } from "../../etcd/messages.ts";
import { put } from "../../etcd/store.ts";
import { startEtcd } from "../../testbed/etcd.ts";
import type { EtcdServer } from "../../testbed/etcd.ts";
import { freePort } from "../../testbed/ports.ts";

const RANGE = "/etcdserverpb.KV/Range";
const TXN = "/etcdserverpb.KV/Txn";

let dir: string;
let etcd: EtcdServer;
let plain: EtcdServer;
const clients: GrpcClient[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "rehome-grpc-test-"));
  [etcd, plain] = await Promise.all([
    startEtcd({ dir, name: "secure", tls: true }),
    startEtcd({ dir, name: "plain" }),
  ]);
});
afterAll(async () => {
  for (const client of clients) client.close();
  await Promise.all([etcd.server.stop(), plain.server.stop()]);
  rmSync(dir, { recursive: true, force: true });
});

function clientOf(endpoints: readonly string[], deadlineMs = 10_000): GrpcClient {
  const client = new GrpcClient({ endpoints, tls: etcd.tls, deadlineMs });
  clients.push(client);
  return client;
}

async function read(client: GrpcClient) {
  return decodeRange(await client.call(RANGE, encodeRange({ key: Buffer.from("key") })));
}

async function write(client: GrpcClient, value: string | Buffer) {
  return decodeTxn(await client.call(TXN, encodeTxn([], [put("key", value)], [])));
}

/** Accepts connections and says nothing, as a host behind a broken network does. */
async function silence(): Promise<{ endpoint: string; server: TcpServer; close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    endpoint: `https://127.0.0.1:${port}`,
    server,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

it("writes and reads over TLS, and large values whole", async () => {
  const client = clientOf([etcd.endpoint]);
  const value = Buffer.alloc(1_400_000, 7);
  expect((await write(client, value)).succeeded).toBe(true);
  expect((await read(client)).entries[0]?.value.equals(value)).toBe(true);
});

it("has many large values under way at once", async () => {
  const client = clientOf([etcd.endpoint]);
  const value = Buffer.alloc(1_000_000, 9);
  const answers = await Promise.all(Array.from({ length: 40 }, async () => await write(client, value)));
  expect(answers.every(({ succeeded }) => succeeded)).toBe(true);
  const pages = await Promise.all(Array.from({ length: 40 }, async () => await read(client)));
  expect(pages.every(({ entries }) => entries[0]?.value.equals(value) === true)).toBe(true);
});

it("speaks without TLS where there is none", async () => {
  const client = new GrpcClient({ endpoints: [plain.endpoint], deadlineMs: 10_000 });
  clients.push(client);
  expect((await write(client, "plain")).succeeded).toBe(true);
});

it("tells etcd's own errors as etcd3 does, and does not repeat them", async () => {
  const client = clientOf([etcd.endpoint]);
  const empty = client.call(RANGE, encodeRange({ key: Buffer.alloc(0) }));
  await expect(empty).rejects.toThrow(GRPCInvalidArgumentError);
  await expect(empty).rejects.toThrow("key is not provided");
  const { revision } = await write(client, "newer");
  const future = client.call(
    RANGE,
    encodeRange({ key: Buffer.from("key"), revision: String(revision + 99n) }),
  );
  await expect(future).rejects.toThrow("required revision is a future revision");
});

it("goes to the next member when one refuses the connection", async () => {
  const client = clientOf([`https://127.0.0.1:${await freePort()}`, etcd.endpoint]);
  // Members are begun with at random.
  for (let turn = 0; turn < 10; turn++) expect((await write(client, `turn ${turn}`)).succeeded).toBe(true);
});

it("ends when no member can be reached", async () => {
  const client = clientOf([`https://127.0.0.1:${await freePort()}`]);
  await expect(read(client)).rejects.toThrow(GRPCUnavailableError);
  await expect(read(client)).rejects.toThrow("ECONNREFUSED");
});

it("ends at the deadline when a member says nothing, and goes to the next one", async () => {
  const silent = await silence();
  try {
    await expect(read(clientOf([silent.endpoint], 300))).rejects.toThrow(GRPCDeadlineExceededError);
    const client = clientOf([silent.endpoint, etcd.endpoint], 300);
    for (let turn = 0; turn < 4; turn++) expect((await write(client, "passed on")).succeeded).toBe(true);
  } finally {
    silent.close();
  }
});

it("refuses a server that others have vouched for", async () => {
  const client = new GrpcClient({
    endpoints: [etcd.endpoint],
    // A certificate that has signed nothing.
    tls: { ...etcd.tls!, ca: etcd.tls!.cert },
    deadlineMs: 2_000,
  });
  clients.push(client);
  await expect(read(client)).rejects.toThrow(GRPCUnavailableError);
});

it("connects again after a restart of the member, and fails what was under way meanwhile", async () => {
  const client = clientOf([etcd.endpoint], 5_000);
  await write(client, "before");
  await etcd.server.kill();
  await expect(read(client)).rejects.toThrow(GRPCUnavailableError);
  await etcd.server.start();
  expect((await read(client)).entries[0]?.value.toString()).toBe("before");
});

it("lets a process end that has forgotten to close it", async () => {
  const grpc = new URL("../../etcd/grpc.ts", import.meta.url).href;
  const script = `
    import { GrpcClient } from ${JSON.stringify(grpc)};
    const client = new GrpcClient(${JSON.stringify({ endpoints: [etcd.endpoint], tls: etcd.tls, deadlineMs: 60_000 })});
    console.log((await client.call("${RANGE}", Buffer.from([0x0a, 1, 107]))).length > 0);`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], {
    timeout: 50_000,
  });
  expect(stdout.trim()).toBe("true");
});

it("gives up a member that has fallen silent, and comes back to it", async () => {
  const client = clientOf([etcd.endpoint], 500);
  await write(client, "before");
  await etcd.server.freeze();
  await expect(read(client)).rejects.toThrow(GRPCDeadlineExceededError);
  etcd.server.thaw();
  const again = clientOf([etcd.endpoint], 10_000);
  expect((await read(again)).entries[0]?.value.toString()).toBe("before");
  expect((await read(client)).entries[0]?.value.toString()).toBe("before");
});
