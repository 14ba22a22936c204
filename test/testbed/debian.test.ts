import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { findDebianProgram } from "../../testbed/programs/debian.ts";
import { findProgram } from "../../testbed/programs/find.ts";

let cache: string;

beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), "rehome-debian-"));
  vi.stubEnv("REHOME_CACHE", cache);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(cache, { recursive: true });
});

describe("findDebianProgram", () => {
  it("unpacks the package once for all who ask, and gives a file that runs by itself", async () => {
    // nft itself is in /usr/sbin where it is installed.
    vi.stubEnv("PATH", "/usr/bin:/bin");
    const [first, second] = await Promise.all([findDebianProgram("nft", []), findDebianProgram("nft", [])]);
    expect(second).toBe(first);
    expect(execFileSync(first, ["--version"]).toString()).toMatch(/^nftables v\d/);
    const [folder, ...others] = await readdir(cache);
    expect(folder).toMatch(/^debian-nftables-\w+-\w+$/);
    expect(others).toEqual([]);
  });

  it("takes the file that the environment variable names before any other", async () => {
    vi.stubEnv("REHOME_BIN_NAMED", "/bin/true");
    expect(await findProgram("named")).toBe("/bin/true");
  });

  it("names the alternatives where there is no apt-get, and leaves nothing behind", async () => {
    vi.stubEnv("PATH", cache);
    await expect(findDebianProgram("dig", [])).rejects.toThrow(
      /dig is missing.*no "apt-get" here.*Install bind9-dnsutils.*REHOME_BIN_DIG, REHOME_BIN_NSUPDATE/s,
    );
    expect(await readdir(cache)).toEqual([]);
  });
});
