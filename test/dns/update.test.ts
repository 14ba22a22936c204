import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LostRaceError, RefusedError } from "../../dns/errors.ts";
import { lookupAt } from "../../dns/lookup.ts";
import { query } from "../../dns/query.ts";
import type { TsigAlgorithm } from "../../dns/tsig.ts";
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

function update(name: string) {
  return { servers: dns.servers, zone, name, type: "A" as const, tsig: dns.tsig };
}

async function held(name: string, type: "A" | "AAAA" | "CNAME" = "A") {
  const { values, ttlSeconds } = await query(dns.servers[0], name, type);
  return { values, ttlSeconds };
}

describe("replaceAddresses", () => {
  it("replaces all values and the TTL, and tells what was there", async () => {
    const name = await dns.create("replaced", "A", 120, "10.75.1.16", "10.75.1.17");
    const from = { values: ["10.75.1.17", "10.75.1.16"] };
    const to = { values: ["10.75.2.16"], ttlSeconds: 30 };
    expect(await replaceAddresses({ ...update(name), from, to })).toEqual({
      changed: true,
      previous: { values: ["10.75.1.16", "10.75.1.17"], ttlSeconds: 120 },
      server: dns.bind.servers[0],
    });
    expect(await held(name)).toEqual(to);
  });

  it("leaves a record alone that is as wanted already", async () => {
    const name = await dns.create("repeated", "A", 120, "10.75.1.16");
    const to = { values: ["10.75.2.16"], ttlSeconds: 30 };
    const input = { ...update(name), from: { values: ["10.75.1.16"] }, to };
    await replaceAddresses(input);
    expect(await replaceAddresses(input)).toMatchObject({ changed: false, previous: to });
  });

  it("sets the TTL of a record that has the new values with another TTL", async () => {
    const name = await dns.create("half", "A", 120, "10.75.2.16");
    const to = { values: ["10.75.2.16"], ttlSeconds: 30 };
    const input = { ...update(name), from: { values: ["10.75.1.16"] }, to };
    expect(await replaceAddresses(input)).toMatchObject({ changed: true });
    expect(await held(name)).toEqual(to);
  });

  it.each([
    ["AAAA", ["2001:DB8:0::1"], ["2001:db8::2"]],
    ["CNAME", ["seed-a.rehome.example."], ["Seed-B.rehome.example"]],
  ] as const)("replaces a record of type %s", async (type, values, next) => {
    const name = await dns.create(`kind-${type.toLowerCase()}`, type, 120, ...values);
    const to = { values: next, ttlSeconds: 30 };
    await replaceAddresses({ ...update(name), type, from: { values }, to });
    expect(await held(name, type)).toEqual({ values: [next[0].toLowerCase()], ttlSeconds: 30 });
  });

  it("replaces more values than fit a datagram", async () => {
    const name = await dns.create("many", "A", 120, "10.75.1.16");
    const values = Array.from({ length: 100 }, (_, index) => `10.75.2.${100 + index}`).sort();
    await replaceAddresses({
      ...update(name),
      from: { values: ["10.75.1.16"] },
      to: { values, ttlSeconds: 30 },
    });
    expect(await held(name)).toEqual({ values, ttlSeconds: 30 });
  });

  it.each([
    ["another value", ["10.75.9.9"]],
    ["one value more", ["10.75.1.16", "10.75.9.9"]],
    ["nothing", []],
  ])("reports a lost race where somebody else left %s, and overwrites nothing", async (_, others) => {
    const name = await dns.create(`raced-${others.length}-${others[0]}`, "A", 120, "10.75.1.16");
    await dns.nsupdate(
      `update delete ${name} A`,
      ...others.map((value) => `update add ${name} 60 A ${value}`),
    );
    const input = {
      ...update(name),
      from: { values: ["10.75.1.16"] },
      to: { values: ["10.75.2.16"], ttlSeconds: 30 },
    };
    const error = await replaceAddresses(input).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LostRaceError);
    expect((error as LostRaceError).found).toEqual(others);
    expect((await held(name)).values).toEqual(others);
  });

  it("lets one of several win who start at once, and tells the others who did", async () => {
    const name = await dns.create("contended", "A", 120, "10.75.1.16");
    const replacements = Array.from({ length: 8 }, (_, index) =>
      replaceAddresses({
        ...update(name),
        from: { values: ["10.75.1.16"] },
        to: { values: [`10.75.2.${index + 1}`], ttlSeconds: 30 },
      }),
    );
    const results = await Promise.allSettled(replacements);
    const winners = results.flatMap((result, index) => (result.status === "fulfilled" ? [index] : []));
    expect(winners).toHaveLength(1);
    const winning = [`10.75.2.${(winners[0] as number) + 1}`];
    expect((await held(name)).values).toEqual(winning);
    const errors = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as Error] : [],
    );
    for (const error of errors) expect(error).toMatchObject({ name: "LostRaceError", found: winning });
  });

  it("never lets a reader find the name without an address", async () => {
    const name = await dns.create("busy", "A", 120, "10.75.1.16");
    const sides = ["10.75.1.16", "10.75.2.16"] as const;
    const done = new AbortController();
    const seen = new Map<string, number>();
    const readers = dns.servers.map(async (server) => {
      while (!done.signal.aborted) {
        const { status, values } = await query(server, name, "A");
        const answer = status === "found" ? values.join() : status;
        seen.set(answer, (seen.get(answer) ?? 0) + 1);
      }
    });
    // The record is new to the secondary as well.
    await expect.poll(async () => (await query(dns.servers[1], name, "A")).status).toBe("found");
    seen.clear();
    for (let i = 0; i < 200; i++) {
      const [from, to] = i % 2 === 0 ? sides : ([sides[1], sides[0]] as const);
      await replaceAddresses({
        ...update(name),
        from: { values: [from] },
        to: { values: [to], ttlSeconds: 5 },
      });
    }
    done.abort();
    await Promise.all(readers);
    expect([...seen.keys()].sort()).toEqual([...sides]);
    expect(Math.min(...seen.values())).toBeGreaterThan(100);
  });
});

describe("setTtl", () => {
  it("lowers and restores the TTL of a record", async () => {
    const name = await dns.create("lowered", "A", 120, "10.75.1.16");
    const values = ["10.75.1.16"];
    const lowered = await setTtl({ ...update(name), values, ttlSeconds: 5 });
    expect(lowered).toMatchObject({ changed: true, previous: { ttlSeconds: 120 } });
    expect(await held(name)).toEqual({ values, ttlSeconds: 5 });
    expect(await setTtl({ ...update(name), values, ttlSeconds: 5 })).toMatchObject({ changed: false });
    await setTtl({ ...update(name), values, ttlSeconds: lowered.previous.ttlSeconds });
    expect(await held(name)).toEqual({ values, ttlSeconds: 120 });
  });

  it("leaves the TTL alone when the record holds something else", async () => {
    const name = await dns.create("foreign", "A", 120, "10.75.9.9");
    const change = setTtl({ ...update(name), values: ["10.75.1.16"], ttlSeconds: 5 });
    await expect(change).rejects.toThrow(LostRaceError);
    expect(await held(name)).toEqual({ values: ["10.75.9.9"], ttlSeconds: 120 });
  });
});

describe("an update that the server refuses", () => {
  const hourMs = 3_600_000;
  const wrongSecret = Buffer.from("not the secret of the key, but as long as it");

  it.each([
    ["BADSIG", () => ({ tsig: { ...dns.tsig, secret: wrongSecret } })],
    ["BADKEY", () => ({ tsig: { ...dns.tsig, name: "unknown" } })],
    ["BADKEY", () => ({ tsig: { ...dns.tsig, algorithm: "hmac-sha512" as const } })],
    ["BADTIME", () => ({ now: () => Date.now() - hourMs })],
    ["BADTIME", () => ({ now: () => Date.now() + hourMs })],
    ["NOTAUTH", () => ({ zone: "example.org" })],
    ["REFUSED", () => ({ servers: [dns.servers[1]] })],
  ])("says %s, changes nothing and tells no secret", async (reason, wrong) => {
    const name = "api.demo.rehome.example";
    const change = setTtl({ ...update(name), values: ["10.75.1.16"], ttlSeconds: 5, ...wrong() });
    const error = (await change.catch((caught: unknown) => caught)) as RefusedError;
    expect(error).toBeInstanceOf(RefusedError);
    expect(error.reason).toBe(reason);
    for (const secret of [dns.tsig.secret, wrongSecret]) {
      expect(error.message).not.toContain(secret.toString("base64"));
      expect(error.message).not.toContain(secret.toString());
    }
    expect(await held(name)).toEqual({ values: ["10.75.1.16"], ttlSeconds: 120 });
  });

  it("tells how far the clocks are apart", async () => {
    const change = setTtl({
      ...update("api.demo.rehome.example"),
      values: ["10.75.1.16"],
      ttlSeconds: 5,
      now: () => Date.now() - hourMs,
    });
    await expect(change).rejects.toThrow(/its clock minus ours is (3599|3600|3601) s/);
  });
});

describe("signatures", () => {
  it.each(["hmac-sha384", "hmac-sha512"] satisfies TsigAlgorithm[])("are made with %s", async (algorithm) => {
    const other = await startDns(algorithm);
    try {
      const { servers, tsig } = other;
      const name = "api.demo.rehome.example";
      const change = { servers, zone, name, type: "A" as const, tsig };
      expect(await setTtl({ ...change, values: ["10.75.1.16"], ttlSeconds: 5 })).toMatchObject({
        changed: true,
      });
    } finally {
      await other.stop();
    }
  });
});

describe("a lookup at servers of one's own", () => {
  it("takes servers by address and by name", async () => {
    const name = await dns.create("looked-up", "A", 120, "10.75.1.18");
    const [{ host, port }] = dns.servers;
    for (const server of [
      { host, port },
      { host: "localhost", port },
    ]) {
      const found = Promise.withResolvers<unknown>();
      lookupAt([server])(name, {}, (error, address) => found.resolve(error ?? address));
      expect(await found.promise).toBe("10.75.1.18");
    }
  });
});
