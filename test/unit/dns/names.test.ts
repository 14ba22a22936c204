import { describe, expect, it } from "vitest";
import {
  canonicalName,
  canonicalValues,
  describeServer,
  parseServer,
  sameValues,
} from "../../../dns/names.ts";

describe("parseServer", () => {
  it.each([
    ["127.0.0.1:5353", { host: "127.0.0.1", port: 5353 }, "127.0.0.1:5353"],
    ["ns1.example.org", { host: "ns1.example.org", port: 53 }, "ns1.example.org:53"],
    ["[::1]:53", { host: "::1", port: 53 }, "[::1]:53"],
    ["[2001:db8::1]", { host: "2001:db8::1", port: 53 }, "[2001:db8::1]:53"],
  ])("reads %s", (text, server, described) => {
    expect(parseServer(text)).toEqual(server);
    expect(describeServer(server)).toBe(described);
  });

  it.each(["", ":53", "host:0", "host:65536", "::1", "host:port", "a b:53", "[::1"])("refuses %j", (text) => {
    expect(() => parseServer(text)).toThrow(RangeError);
  });
});

describe("canonicalName", () => {
  it("is the same for spellings of one name", () => {
    expect(canonicalName("API.Demo.rehome.example.")).toBe("api.demo.rehome.example");
  });

  it.each(["", ".", "a..b", ".a", "a b", "a\u0000", "é.example", "a".repeat(64), `${"a.".repeat(127)}a`])(
    "refuses %j",
    (name) => {
      expect(() => canonicalName(name)).toThrow(RangeError);
    },
  );
});

describe("canonicalValues", () => {
  it("is a set in one order", () => {
    expect(canonicalValues("A", ["10.0.0.2", "10.0.0.1", "10.0.0.2"])).toEqual(["10.0.0.1", "10.0.0.2"]);
    expect(canonicalValues("AAAA", ["2001:DB8:0:0::1", "2001:db8::1"])).toEqual(["2001:db8::1"]);
    expect(canonicalValues("CNAME", ["Seed.Example.", "seed.example"])).toEqual(["seed.example"]);
  });

  it.each([
    ["A", "10.0.0"],
    ["A", "010.0.0.1"],
    ["A", "2001:db8::1"],
    ["AAAA", "10.0.0.1"],
    ["AAAA", "fe80::1%eth0"],
    ["CNAME", "a b"],
  ] as const)("refuses %s %j", (type, value) => {
    expect(() => canonicalValues(type, [value])).toThrow(RangeError);
  });

  it("compares whole sets", () => {
    expect(sameValues(["a", "b"], ["a", "b"])).toBe(true);
    expect(sameValues(["a"], ["a", "b"])).toBe(false);
    expect(sameValues(["a", "c"], ["a", "b"])).toBe(false);
  });
});
