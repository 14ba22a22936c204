import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { awaitAuthoritative } from "../../dns/authoritative.ts";
import { LaggingError, ServerFailureError, UnreachableError } from "../../dns/errors.ts";
import type { Lag } from "../../dns/errors.ts";
import { decode, encodeUpdate } from "../../dns/message.ts";
import { describeServer } from "../../dns/names.ts";
import type { DnsServer } from "../../dns/names.ts";
import { query, zoneSerial } from "../../dns/query.ts";
import { exchangeTcp } from "../../dns/transport.ts";
import { sign, verify } from "../../dns/tsig.ts";
import { replaceAddresses, setTtl } from "../../dns/update.ts";
import { startDns, zone } from "./fixture.ts";
import type { DnsFixture } from "./fixture.ts";

let dns: DnsFixture;

beforeAll(async () => {
  dns = await startDns();
});

afterAll(async () => {
  await dns?.stop();
});

function record(name: string) {
  return { servers: dns.servers, zone, name, type: "A" as const, tsig: dns.tsig };
}

const first = ["10.75.1.16"];
const second = ["10.75.2.16"];

/** A way to the primary that hands on the request and closes the connection instead of giving the answer. */
async function losingAnswers(run: (server: DnsServer) => Promise<void>): Promise<void> {
  const proxy = createServer((client) => {
    const server = connect(dns.servers[0].port, dns.servers[0].host);
    client.pipe(server);
    server.once("data", () => {
      client.destroy();
      server.destroy();
    });
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  try {
    await run({ host: "127.0.0.1", port: (proxy.address() as AddressInfo).port });
  } finally {
    proxy.close();
  }
}

describe("awaitAuthoritative", () => {
  it("returns at once when every server answers what is expected", async () => {
    const name = await dns.create("same", "A", 120, ...first);
    const expected = { values: first, ttlSeconds: 120 };
    await awaitAuthoritative({ ...record(name), expected, timeoutMs: 10_000, pollEveryMs: 20 });
    await expect(awaitAuthoritative({ ...record(name), expected, timeoutMs: 0 })).resolves.toBeUndefined();
  });

  it("waits for a secondary that lags, says which one, and what it answers", async () => {
    const name = await dns.create("lagging", "A", 120, ...first);
    const before = { ...record(name), expected: { values: first, ttlSeconds: 120 }, pollEveryMs: 20 };
    await awaitAuthoritative({ ...before, timeoutMs: 10_000 });
    await dns.bind.holdTransfers();
    const to = { values: second, ttlSeconds: 5 };
    await replaceAddresses({ ...record(name), from: { values: first }, to });
    const input = { ...record(name), expected: to, pollEveryMs: 20 };
    const error = await awaitAuthoritative({ ...input, timeoutMs: 500 }).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(LaggingError);
    expect((error as LaggingError).lagging).toEqual([
      {
        server: dns.bind.servers[1],
        answers: expect.stringMatching(/^answers 10\.75\.1\.16 with TTL 120 \(serial \d+\)$/) as string,
        silent: false,
      },
    ]);
    const lags: Lag[][] = [];
    const waiting = awaitAuthoritative({ ...input, onLag: (lag) => lags.push([...lag]), timeoutMs: 20_000 });
    await expect.poll(() => lags.length).toBeGreaterThan(1);
    await dns.bind.releaseTransfers();
    await waiting;
    expect(await zoneSerial(dns.servers[1], zone)).toBe(await zoneSerial(dns.servers[0], zone));
  });

  it("counts a server that is down as lagging, and one with another TTL", async () => {
    const name = await dns.create("down", "A", 120, ...first);
    const input = { ...record(name), pollEveryMs: 20 };
    await awaitAuthoritative({ ...input, expected: { values: first, ttlSeconds: 120 }, timeoutMs: 10_000 });
    const expected = { values: first, ttlSeconds: 5 };
    let stopped: Promise<void> | undefined;
    const onLag = () => void (stopped ??= dns.bind.secondary.stop());
    const gone = await awaitAuthoritative({ ...input, expected, timeoutMs: 5_000, onLag }).catch(
      (caught: unknown) => caught,
    );
    await stopped;
    expect((gone as Error).message).toMatch(/; \S+ fails: .*unreachable/);
    // It has answered with something else before.
    expect((gone as LaggingError).lagging.map(({ silent }) => silent)).toEqual([false, false]);
    const error = await awaitAuthoritative({ ...input, expected, timeoutMs: 100 }).catch(
      (caught: unknown) => caught,
    );
    expect(error).toBeInstanceOf(LaggingError);
    expect((error as Error).message).toMatch(
      /answers 10\.75\.1\.16 with TTL 120 .*; \S+ fails: .*unreachable/,
    );
    expect((error as LaggingError).lagging.map(({ silent }) => silent)).toEqual([false, true]);
    await dns.bind.secondary.start();
  });

  it("ends with the signal's reason", async () => {
    const controller = new AbortController();
    const reason = new Error("cancelled");
    const wait = awaitAuthoritative({
      ...record("api.demo.rehome.example"),
      expected: { values: second, ttlSeconds: 5 },
      signal: controller.signal,
      onLag: () => controller.abort(reason),
    });
    await expect(wait).rejects.toBe(reason);
  });
});

describe("a server that fails", () => {
  it("keeps what it accepted when it is killed, and is told unreachable while it is down", async () => {
    const name = await dns.create("killed", "A", 120, ...first);
    const [primary] = dns.servers;
    const input = {
      ...record(name),
      servers: [primary],
      from: { values: first },
      to: { values: second, ttlSeconds: 5 },
    };
    await replaceAddresses(input);
    await dns.bind.primary.kill();
    await expect(replaceAddresses(input)).rejects.toThrow(UnreachableError);
    await expect(query(primary, name, "A")).rejects.toThrow(UnreachableError);
    await dns.bind.primary.start();
    expect(await replaceAddresses(input)).toMatchObject({
      changed: false,
      previous: { values: second, ttlSeconds: 5 },
    });
  });

  it("is told unreachable when the other one, a secondary, only refuses", async () => {
    await dns.bind.primary.stop();
    const change = setTtl({ ...record("api.demo.rehome.example"), values: first, ttlSeconds: 5 });
    await expect(change).rejects.toThrow(
      new RegExp(`${dns.bind.servers[0]} does not answer.*; .*${dns.bind.servers[1]} refused`),
    );
    await expect(change).rejects.toThrow(UnreachableError);
    await dns.bind.primary.start();
  });

  it("does not answer at all: the wait ends after the time given", async () => {
    await dns.bind.primary.freeze();
    try {
      const started = performance.now();
      const asked = query(dns.servers[0], "api.demo.rehome.example", "A", { timeoutMs: 100, attempts: 2 });
      await expect(asked).rejects.toThrow(/did not answer within 100 ms/);
      expect(performance.now() - started).toBeLessThan(2_000);
      const reason = new Error("cancelled");
      const signal = AbortSignal.any([AbortSignal.abort(reason)]);
      await expect(query(dns.servers[0], "api.demo.rehome.example", "A", { signal })).rejects.toBe(reason);
    } finally {
      dns.bind.primary.thaw();
    }
  });

  it("is passed over for the next one when it cannot be reached", async () => {
    const name = await dns.create("passed", "A", 120, ...first);
    const servers = [{ host: "127.0.0.1", port: 9 }, dns.servers[0]];
    expect(await setTtl({ ...record(name), servers, values: first, ttlSeconds: 5 })).toMatchObject({
      changed: true,
      server: describeServer(dns.servers[0]),
    });
  });
});

describe("an answer", () => {
  it("that is lost leaves an update that may be repeated", async () => {
    const name = await dns.create("lost", "A", 120, ...first);
    await losingAnswers(async (lossy) => {
      const update = encodeUpdate({
        zone,
        name,
        type: "A",
        from: first,
        to: { values: second, ttlSeconds: 5 },
      });
      const sent = exchangeTcp(lossy, sign(update, dns.tsig, Date.now()), { timeoutMs: 5_000 });
      await expect(sent).rejects.toThrow(/the connection was closed before the answer was whole|ECONNRESET/);
    });
    expect((await query(dns.servers[0], name, "A")).values).toEqual(second);
    const input = { ...record(name), from: { values: first }, to: { values: second, ttlSeconds: 5 } };
    expect(await replaceAddresses(input)).toMatchObject({ changed: false });
  });

  it("is believed only with a signature that covers every byte of it", async () => {
    const name = await dns.create("signed", "A", 120, ...first);
    const update = encodeUpdate({
      zone,
      name,
      type: "A",
      from: first,
      to: { values: second, ttlSeconds: 5 },
    });
    const signedAt = Date.now();
    const request = sign(update, dns.tsig, signedAt);
    const bytes = await exchangeTcp(dns.servers[0], request, { timeoutMs: 5_000 });
    const judge = (answer: Buffer, now = Date.now()) => {
      try {
        return verify(decode(answer), request, dns.tsig, now).kind;
      } catch (error) {
        return (error as Error).name;
      }
    };
    expect(judge(bytes)).toBe("valid");
    expect(judge(bytes, Date.now() + 3_600_000)).toBe("invalid");
    // The message id stands in the signature too; the caller compares it with the request's.
    for (let at = 2; at < bytes.length; at++) {
      const tampered = Buffer.from(bytes);
      tampered[at] = (tampered[at] as number) ^ 0x01;
      expect(judge(tampered), `byte ${at}`).not.toBe("valid");
    }
    // A signature holds whole seconds (RFC 8945, section 4.2): this is the one of another request.
    const foreign = sign(update, dns.tsig, signedAt - 1_000);
    expect(verify(decode(bytes), foreign, dns.tsig, Date.now()).kind).toBe("invalid");
  });

  it("without a signature is no success", async () => {
    const unsigned = createServer((client) => {
      client.once("data", (data: Buffer) => {
        const answer = Buffer.alloc(14);
        answer.writeUInt16BE(12);
        data.copy(answer, 2, 2, 4);
        // A response to an update, NOERROR, without any section.
        answer.writeUInt16BE(0xa800, 4);
        client.end(answer);
      });
    });
    unsigned.listen(0, "127.0.0.1");
    await once(unsigned, "listening");
    const { port } = unsigned.address() as AddressInfo;
    const name = await dns.create("unsigned", "A", 120, ...first);
    // Queries go to the real server over UDP: only the update is answered by somebody else.
    const forged = await forwardQueries(port);
    try {
      const change = setTtl({
        ...record(name),
        servers: [{ host: "127.0.0.1", port }],
        values: first,
        ttlSeconds: 5,
      });
      await expect(change).rejects.toThrow(ServerFailureError);
      await expect(change).rejects.toThrow(/the answer is not signed/);
    } finally {
      forged.close();
      unsigned.close();
    }
  });
});

/** Hands datagrams at this port on to the primary, and its answers back. */
async function forwardQueries(port: number) {
  const socket = createSocket("udp4");
  let asker: { port: number; address: string } | undefined;
  socket.on("message", (bytes, from) => {
    const isAnswer = from.port === dns.servers[0].port;
    if (!isAnswer) asker = from;
    const to = isAnswer ? asker : { port: dns.servers[0].port, address: dns.servers[0].host };
    if (to) socket.send(bytes, to.port, to.address);
  });
  socket.bind(port, "127.0.0.1");
  await once(socket, "listening");
  return socket;
}
