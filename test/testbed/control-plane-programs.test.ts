import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { vpnDestination } from "../../testbed/control-plane/names.ts";
import { readFenceJournal } from "../../testbed/control-plane/programs/fence.ts";
import { freePort } from "../../testbed/ports.ts";

const root = join(import.meta.dirname, "..", "..");
const main = join(root, "testbed", "control-plane", "programs", "main.ts");
const children: ChildProcess[] = [];

function start(...words: string[]): ChildProcess {
  const child = spawn(process.execPath, [main, ...words], {
    stdio: ["ignore", "inherit", "pipe"],
    env: { ...process.env, POD_NAME: `pod-${children.length}`, POD_NAMESPACE: "default" },
  });
  children.push(child);
  return child;
}

afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
});

/** Sends a text and returns what comes back until the other side ends, or until `last` has come. */
async function talk(port: number, text: string, last: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.write(text);
  let answer = "";
  for await (const chunk of socket) {
    answer += String(chunk);
    if (answer.endsWith(last)) break;
  }
  socket.destroy();
  return answer;
}

async function awaitListening(port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
      return;
    } catch {
      await delay(50);
    } finally {
      socket.destroy();
    }
  }
}

describe("the CONNECT proxy before the VPN server", () => {
  let server: Server;
  let port: number;

  beforeEach(async () => {
    server = createServer((socket) => socket.on("error", () => undefined).pipe(socket)).listen(
      0,
      "127.0.0.1",
    );
    await once(server, "listening");
    const { port: upstream } = server.address() as AddressInfo;
    port = await freePort();
    start(
      "connect-proxy",
      `--listen=127.0.0.1:${port}`,
      `--to=127.0.0.1:${upstream}`,
      `--destination=${vpnDestination}`,
    );
    await awaitListening(port);
  });

  afterEach(() => {
    server.close();
  });

  it("lets a client through that names this control plane, as OpenVPN asks", async () => {
    const request = `CONNECT api:8132 HTTP/1.0\r\nReversed-VPN: ${vpnDestination}\r\nHost: api\r\n\r\n`;
    expect(await talk(port, `${request}hello`, "hello")).toBe("HTTP/1.1 200 OK\r\n\r\nhello");
  });

  it.each([
    ["no header", ""],
    [
      "another control plane",
      "Reversed-VPN: outbound|1194||vpn-seed-server.shoot--other.svc.cluster.local\r\n",
    ],
  ])("refuses a client with %s", async (_, header) => {
    const answer = await talk(port, `CONNECT api:8132 HTTP/1.0\r\n${header}\r\nhello`, "\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1\.1 403 /);
  });
});

describe("a controller that must run once", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "rehome-fence-"));
  });

  afterEach(async () => {
    await rm(folder, { recursive: true });
  });

  const startController = (name: string) => start("controller", `--name=${name}`, `--fence-folder=${folder}`);

  it("refuses to run beside another one, says so, and may run once that is dead", async () => {
    const first = startController("a");
    await awaitEvents(1);
    const second = startController("a");
    const [code] = (await once(second, "exit")) as [number];
    expect(code).not.toBe(0);
    expect(events()).toEqual(["started", "refused"]);
    first.kill("SIGKILL");
    await once(first, "exit");
    startController("a");
    await awaitEvents(3);
    expect(events()).toEqual(["started", "refused", "started"]);
  });

  it("does not mind another controller", async () => {
    startController("a");
    startController("b");
    await awaitEvents(2);
    expect(events()).toEqual(["started", "started"]);
  });

  const events = () => readFenceJournal(folder).map(({ event }) => event);

  async function awaitEvents(count: number): Promise<void> {
    while (events().length < count) await delay(50);
  }
});
