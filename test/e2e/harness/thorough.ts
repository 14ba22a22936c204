/** `npm run chaos` and `npm run test:long` also run what takes minutes and rarely tells more than the rest. */
export const isThorough = process.env["REHOME_CHAOS"] === "all";
