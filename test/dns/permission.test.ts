import { afterAll, beforeAll, expect, it } from "vitest";
import { LostRaceError, RefusedError } from "../../dns/errors.ts";
import { query, zoneSerial } from "../../dns/query.ts";
import { proveUpdatable } from "../../dns/update.ts";
import { startDns, zone } from "./fixture.ts";
import type { DnsFixture } from "./fixture.ts";

let dns: DnsFixture;
const values = ["10.75.1.16"];
beforeAll(async () => {
  dns = await startDns();
});
afterAll(async () => {
  await dns?.stop();
});

it("tells that a key may change a record, and changes nothing", async () => {
  const name = await dns.create("permitted", "A", 120, ...values);
  const input = { servers: dns.servers, zone, name, type: "A" as const, tsig: dns.tsig };
  const before = await zoneSerial(dns.servers[0], zone);
  await proveUpdatable({ ...input, values });
  expect(await zoneSerial(dns.servers[0], zone)).toBe(before);
  expect(await query(dns.servers[0], name, "A")).toMatchObject({ values, ttlSeconds: 120 });
});

it("tells that a key is unknown, wrong, or without permission", async () => {
  const name = await dns.create("refused", "A", 120, ...values);
  const input = { servers: dns.servers, zone, name, type: "A" as const, values };
  const unknown = { ...dns.tsig, name: "stranger" };
  await expect(proveUpdatable({ ...input, tsig: unknown })).rejects.toThrow(RefusedError);
  const wrong = { ...dns.tsig, secret: Buffer.alloc(32, 1) };
  await expect(proveUpdatable({ ...input, tsig: wrong })).rejects.toThrow(RefusedError);
  const elsewhere = { ...input, tsig: dns.tsig, zone: "elsewhere.example", name: "x.elsewhere.example" };
  await expect(proveUpdatable(elsewhere)).rejects.toThrow(RefusedError);
});

it("tells that the record is not what was said", async () => {
  const name = await dns.create("other", "A", 120, ...values);
  const input = { servers: dns.servers, zone, name, type: "A" as const, tsig: dns.tsig };
  await expect(proveUpdatable({ ...input, values: ["10.75.2.16"] })).rejects.toThrow(LostRaceError);
});
