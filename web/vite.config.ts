import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { compressed } from './compressed.ts';

const folder = fileURLToPath(new URL('.', import.meta.url));
const output = fileURLToPath(new URL('../dist/web', import.meta.url));

export default defineConfig({
  root: folder,
  // Addresses without a leading slash: the page works behind a proxy that puts it in a folder.
  base: './',
  build: {
    outDir: output,
    emptyOutDir: true,
    // The page, and the reference of the API.
    rolldownOptions: { input: ['index.html', 'docs.html'].map((name) => join(folder, name)) },
    target: 'es2022',
    // What is inlined would need a laxer content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  plugins: [compressed(output)],
});
