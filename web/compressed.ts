// Writes each file of the page a second and a third time, compressed, so that the server need not; and refuses a page
// that has grown too large for a slow line.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import type { Plugin } from 'vite';

/** Of all files together, as a browser without Brotli gets them. */
const MOST_BYTES = 150 * 1024;

export function compressed(folder: string): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      let gzipBytes = 0;
      let brotliBytes = 0;
      for (const path of filesIn(folder)) {
        const bytes = readFileSync(path);
        const gzip = gzipSync(bytes, { level: 9 });
        const brotli = brotliCompressSync(bytes, {
          params: { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
        });
        writeFileSync(`${path}.gz`, gzip);
        writeFileSync(`${path}.br`, brotli);
        gzipBytes += gzip.length;
        brotliBytes += brotli.length;
      }
      const sizes = `${inKilobytes(gzipBytes)} with gzip, ${inKilobytes(brotliBytes)} with Brotli`;
      if (gzipBytes > MOST_BYTES) {
        throw new Error(`the page is ${sizes}; ${inKilobytes(MOST_BYTES)} is the most`);
      }
      this.info(`the page is ${sizes}`);
    },
  };
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(gz|br)$/.test(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name));
}

function inKilobytes(bytes: number): string {
  return `${(bytes / 1024).toFixed(1)} KB`;
}
