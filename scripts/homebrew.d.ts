// See homebrew.js.

/** The text of the formula for a package of these bytes. */
export function formulaFor(options: { bytes: Uint8Array; version: string; url: string }): string;
/** Writes it and gives its path. Without an address it installs the file where it lies. */
export function writeFormula(file: string, version: string, url?: string): string;
