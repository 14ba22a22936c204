import { beforeEach, describe, expect, it } from "vitest";
import { Ledger } from "../../../testbed/workload/ledger.ts";
import { WatchLog } from "../../../testbed/workload/watch-log.ts";

const key = "configmaps/passing-1";
let ledger: Ledger;
let log: WatchLog;
let revision: number;

beforeEach(() => {
  ledger = new Ledger();
  log = new WatchLog();
  revision = 100;
  log.opened(0);
});

function write(kind: "put" | "delete", at = 10): number {
  const begun = ledger.begin(key, kind, at);
  ledger.acknowledge(begun);
  return begun.number;
}

function seen(number: number) {
  revision += 1;
  return { key, number, resourceVersion: String(revision) };
}

const missed = () => log.compare(ledger).missed.map(({ number }) => number);

describe("compare", () => {
  it("finds every write that was seen, deletes by what they deleted", () => {
    log.put(seen(write("put")));
    write("delete");
    log.deleted(seen(1));
    log.put(seen(write("put")));
    expect(log.compare(ledger)).toEqual({ missed: [], skipped: 0 });
    expect(log.behind(ledger)).toEqual([]);
  });

  it("misses the last write, and a hole in an unbroken stream", () => {
    log.put(seen(write("put")));
    write("put");
    log.put(seen(write("put")));
    write("put");
    expect(missed()).toEqual([2, 4]);
    expect(log.behind(ledger)).toEqual([key]);
  });

  it("misses a delete that was never told", () => {
    log.put(seen(write("put")));
    write("delete");
    expect(missed()).toEqual([2]);
  });

  it("takes a delete that was refused before it was done for one", () => {
    log.put(seen(write("put")));
    ledger.refuse(ledger.begin(key, "delete", 10));
    ledger.begin(key, "delete", 10);
    write("delete");
    log.deleted(seen(1));
    expect(missed()).toEqual([]);
  });

  it("excuses a write that a resumed stream shows only through a later one", () => {
    log.put(seen(write("put", 10)));
    write("put", 20);
    write("put", 30);
    log.opened(40);
    log.put(seen(3));
    expect(log.compare(ledger)).toEqual({ missed: [], skipped: 1 });
    expect(log.breaks).toBe(1);
  });

  it("does not excuse a write that was sent after the stream was resumed", () => {
    log.put(seen(write("put", 10)));
    log.opened(20);
    write("put", 30);
    log.put(seen(write("put", 40)));
    expect(missed()).toEqual([2]);
  });

  it("takes what a list in place of a stream does not show for deleted", () => {
    log.put(seen(write("put", 10)));
    write("delete", 20);
    log.opened(30);
    log.relisted([]);
    expect(missed()).toEqual([]);
    expect(log.relists).toBe(1);
  });

  it("takes an object that came and went in between for seen when the list does not have it", () => {
    log.put(seen(write("put")));
    write("delete");
    log.deleted(seen(1));
    write("put", 11);
    write("delete", 12);
    log.opened(20);
    log.relisted([]);
    expect(log.behind(ledger)).toEqual([]);
    expect(log.compare(ledger)).toEqual({ missed: [], skipped: 1 });
    log.put(seen(write("put", 30)));
    write("delete", 31);
    expect(missed()).toEqual([6]);
  });

  it("is content with objects that are told again after a break", () => {
    log.put(seen(write("put", 10)));
    log.opened(20);
    log.put(seen(1));
    log.put(seen(write("put", 30)));
    expect(log.compare(ledger)).toEqual({ missed: [], skipped: 0 });
  });
});

describe("regressions", () => {
  it("notices an object whose resourceVersion goes backwards, across streams too", () => {
    log.put({ key, number: 1, resourceVersion: "1000000000000" });
    log.opened(20);
    log.put({ key, number: 2, resourceVersion: "999999999999" });
    log.put({ key, number: 3, resourceVersion: "1000000000001" });
    expect(log.regressions).toEqual([{ key, before: "1000000000000", after: "999999999999" }]);
  });
});

describe("a watcher that only a list excuses", () => {
  beforeEach(() => {
    log = new WatchLog("relist");
    log.opened(0);
  });

  it("misses what a resumed stream leaves out", () => {
    log.put(seen(write("put")));
    write("put");
    log.opened(20);
    log.put(seen(write("put")));
    expect(log.compare(ledger)).toMatchObject({ missed: [{ number: 2 }], skipped: 0 });
  });

  it("is excused by the list that it made in between", () => {
    log.put(seen(write("put")));
    write("put");
    const third = seen(write("put"));
    log.opened(20);
    log.relisted([third]);
    expect(log.compare(ledger)).toEqual({ missed: [], skipped: 1 });
    expect(log.relists).toBe(1);
  });
});
