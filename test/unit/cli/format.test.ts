import { expect, test } from "vitest";
import { bar, byteSize, duration, oneLine, percent, shellWord, words } from "../../../cli/view/format.ts";
import { clip, plain, rowsOf, span } from "../../../cli/view/line.ts";

test.each([
  [0, "0 ms"],
  [999.4, "999 ms"],
  [999.6, "1.0 s"],
  [59_999, "59.9 s"],
  [60_000, "1 min 00 s"],
  [3_599_999, "59 min 59 s"],
  [7_380_000, "2 h 03 min"],
])("%d ms is %s", (ms, text) => {
  expect(duration(ms)).toBe(text);
});

test("shares and sizes", () => {
  expect(percent(0.9999)).toBe("99%");
  expect(bar(0.5, 4)).toBe("██░░");
  expect(bar(7, 4)).toBe("████");
  expect([999, 1000, 3_456_789].map(byteSize)).toEqual(["999 B", "1.0 kB", "3.5 MB"]);
});

test("text from outside is one line without control or reordering characters", () => {
  expect(oneLine(" a\r\n\tb\u001B[31mc\u202Ed ")).toBe("a b [31mc d");
});

test("shell words stand for themselves", () => {
  expect(shellWord("logicalClusterMigration/root:team-a")).toBe("logicalClusterMigration/root:team-a");
  expect(shellWord("it's; rm")).toBe(`'it'\\''s; rm'`);
  expect(shellWord("")).toBe("''");
});

test("names become words", () => {
  expect(words("leftInPlace")).toBe("left in place");
});

test("lines are cut by letters, whatever their tones", () => {
  const line = [span("héllo ", "good"), span("wörld")];
  expect(plain(clip(line, 8))).toBe("héllo w…");
  expect(clip(line, 100)).toEqual(line);
  expect(rowsOf(line, 5)).toBe(3);
  expect(rowsOf([], 5)).toBe(1);
});
