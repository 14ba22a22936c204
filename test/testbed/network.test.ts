import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Network } from "../../testbed/network/network.ts";
import type { PlaceName } from "../../testbed/network/places.ts";
import { identityOf, isAlive } from "../../testbed/process-identity.ts";
import type { ProcessIdentity } from "../../testbed/process-identity.ts";
import { cacheRoot } from "../../testbed/programs/cache.ts";
import { Echo, leftOf, waitUntilRemoved } from "./places.ts";
import { lineOf, startNode, waitUntilGone } from "./wait.ts";

const holdNetwork = join(import.meta.dirname, "fixtures", "hold-network.ts");
const port = 7_000;
let dir: string;
let network: Network;
const echoes: Echo[] = [];

function start(mode: "serve" | "ask", from: PlaceName | "operator", to: PlaceName): Echo {
  const place = from === "operator" ? undefined : network.places[from];
  const echo = new Echo(mode, place, network.places[to].address, port);
  echoes.push(echo);
  return echo;
}

/** A client that is connected to the server in seed-b. */
async function connected(from: PlaceName | "operator", to: PlaceName = "seed-b"): Promise<Echo> {
  const client = start("ask", from, to);
  await client.connected();
  return client;
}

/** The best of as many as it takes to be below a limit, since on a busy machine the others measure the machine. */
async function bestRoundTripMs(client: Echo, limitMs: number): Promise<number> {
  const times: number[] = [];
  const best = async () => {
    for (let count = 0; count < 10; count++) times.push(await client.roundTripMs());
    return Math.min(...times);
  };
  await expect.poll(best).toBeLessThan(limitMs);
  return Math.min(...times);
}

/** A process of its own that has made a network, in which a process runs. */
async function startHolder() {
  const child = startNode(holdNetwork, [dir]);
  const { id, stray } = JSON.parse(await lineOf(child, /^\{/)) as { id: string; stray: number };
  return { id, stray: identityOf(stray), holder: identityOf(child.pid as number) };
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "rehome-network-"));
  network = await Network.create({ dir });
  await start("serve", "seed-b", "seed-b").listening();
});

afterEach(() => {
  for (const echo of echoes.splice(1)) echo.end();
});

afterAll(async () => {
  for (const echo of echoes) echo.end();
  await network.destroy();
  await rm(dir, { recursive: true });
});

describe("a wire", () => {
  it("takes the time that is set, in each direction", async () => {
    const wire = network.wire("seed-b", "seed-a");
    const client = await connected("seed-a");
    for (const oneWayMs of [50, 10, 0]) {
      await wire.setDelay(oneWayMs);
      const roundTripMs = await bestRoundTripMs(client, 2 * oneWayMs + 5);
      expect(roundTripMs).toBeGreaterThanOrEqual(2 * oneWayMs);
    }
    expect(await wire.status()).toMatchObject({ delayMs: 0, cut: false });
  });

  it("refuses a delay that is none, and goes on", async () => {
    const wire = network.wire("seed-a", "seed-b");
    await expect(wire.setDelay(-1)).rejects.toThrow("a delay of -1 ms is not possible");
    expect(await wire.status()).toMatchObject({ delayMs: 0 });
  });

  it("lets nothing through while it is cut, and a connection goes on once it is mended", async () => {
    const wire = network.wire("seed-a", "seed-b");
    const client = await connected("seed-a");
    const elsewhere = await connected("shoot");
    await wire.cut();
    client.send();
    const answer = client.line();
    expect(await Promise.race([answer, delay(1_000, "nothing")])).toBe("nothing");
    expect(await elsewhere.roundTripMs()).toBeLessThan(1_000);
    expect(await start("ask", "seed-a", "seed-b").line()).toBe("failed TIMEOUT");
    await wire.mend();
    const mended = performance.now();
    expect(Number(await answer)).toBeGreaterThan(1_000);
    expect(performance.now() - mended).toBeLessThan(10_000);
    expect(await client.roundTripMs()).toBeLessThan(1_000);
  });

  it("is the only way from one place to another", async () => {
    const own = await Network.create({ dir });
    try {
      const { "seed-a": from, "seed-b": to } = own.places;
      const server = new Echo("serve", to, to.address, port);
      echoes.push(server);
      await server.listening();
      await own.wire("seed-a", "seed-b").remove();
      for (const address of [to.address, to.operatorAddress]) {
        const client = new Echo("ask", from, address, port);
        echoes.push(client);
        expect(await client.line()).toBe("failed ENETUNREACH");
      }
    } finally {
      await own.destroy();
    }
  });
});

describe("the operator", () => {
  it("can be cut off from a place that others still reach", async () => {
    const client = await connected("operator");
    const neighbour = await connected("seed-a");
    await network.cutOperator("seed-b");
    client.send();
    const answer = client.line();
    expect(await Promise.race([answer, delay(1_000, "nothing")])).toBe("nothing");
    expect(await neighbour.roundTripMs()).toBeLessThan(1_000);
    await connected("shoot");
    await network.mendOperator("seed-b");
    const mended = performance.now();
    expect(Number(await answer)).toBeGreaterThan(1_000);
    expect(performance.now() - mended).toBeLessThan(10_000);
    await connected("operator");
  });
});

describe("networks of several beds", () => {
  it("have different addresses, and one goes without the other", async () => {
    const second = await Network.create({ dir });
    expect(second.places["seed-a"].address).not.toBe(network.places["seed-a"].address);
    expect(leftOf(second.id)).toHaveLength(6);
    await second.destroy();
    expect(leftOf(second.id)).toEqual([]);
    expect(leftOf(network.id)).toHaveLength(6);
  });
});

describe("a network goes with the process that made it", () => {
  it("at once, with what runs in it, after SIGKILL", async () => {
    const { id, stray, holder } = await startHolder();
    process.kill(holder.pid, "SIGKILL");
    await waitUntilRemoved(id, 5_000);
    expect(await waitUntilGone([holder, stray], 5_000)).toBeLessThan(5_000);
  });

  it("at the next start, when all that would remove it was killed too", async () => {
    const { id, stray, holder } = await startHolder();
    const file = join(cacheRoot(), "run", `${holder.pid}-${holder.start}.json`);
    const run = JSON.parse(await readFile(file, "utf8")) as {
      guardian: ProcessIdentity;
      servers: ProcessIdentity[];
    };
    const killed = [run.guardian, holder, ...run.servers];
    // Each leads a group of its own, but for the holder.
    for (const { pid } of killed) process.kill(pid === holder.pid ? pid : -pid, "SIGKILL");
    await waitUntilGone(killed, 5_000);
    expect(leftOf(id)).toHaveLength(6);
    expect(isAlive(stray)).toBe(true);
    const next = await Network.create({ dir });
    expect(leftOf(id)).toEqual([]);
    await waitUntilGone([stray], 1_000);
    await next.destroy();
  });
});
