import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { compressed } from './compressed.ts';

const output = fileURLToPath(new URL('../dist/web', import.meta.url));

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  // Addresses without a leading slash: the page works behind a proxy that puts it in a folder.
  base: './',
  build: {
    outDir: output,
    emptyOutDir: true,
    target: 'es2022',
    // What is inlined would need a laxer content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  plugins: [compressed(output)],
});
