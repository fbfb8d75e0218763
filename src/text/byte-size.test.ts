import { expect, it } from 'vitest';
import { formatBytes } from './byte-size.ts';

it('has three digits in units of a thousand, whatever the size', () => {
  const sizes = [
    0,
    999,
    1000,
    1024,
    9_994,
    9_999,
    99_960,
    999_400,
    999_600,
    15_198_272,
    2 ** 30,
    1.5e12,
    1.5e15,
  ];
  expect(sizes.map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '1.00 KB',
    '1.02 KB',
    '9.99 KB',
    '10.0 KB',
    '100 KB',
    '999 KB',
    '1.00 MB',
    '15.2 MB',
    '1.07 GB',
    '1.50 TB',
    '1500 TB',
  ]);
});
