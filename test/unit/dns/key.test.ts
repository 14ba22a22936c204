import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readTsigKey } from "../../../dns/tsig.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rehome-tsig-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

function read(secretFile: string) {
  return readTsigKey({ name: "Rehome.", algorithm: "hmac-sha256", secretFile });
}

describe("readTsigKey", () => {
  it("reads base64 with the end of its line", async () => {
    const file = join(folder, "key");
    await writeFile(file, "c2VjcmV0\n");
    expect(await read(file)).toEqual({
      name: "rehome",
      algorithm: "hmac-sha256",
      secret: Buffer.from("secret"),
    });
  });

  it.each(["", "not base64!", "c2VjcmV0\nc2VjcmV0", "c2VjcmV"])(
    "names the file, not its content, for %j",
    async (content) => {
      const file = join(folder, "key");
      await writeFile(file, content);
      await expect(read(file)).rejects.toThrow(
        `${file} does not hold one line of base64, as a TSIG secret is written`,
      );
    },
  );
});
