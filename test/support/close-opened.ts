// Closes what a test has opened. It is a setup file, which runs before every test file: a hook in a module that test files
// import would belong to the first of those that share a process.

import { afterEach } from 'vitest';
import { opened } from './opened.ts';

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});
