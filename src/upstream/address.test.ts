import { describe, expect, it } from 'vitest';
import { checkAddress, lookupFor } from './address.ts';

const strict = { allowHttp: false };

describe('the address of an upstream', () => {
  it.each([
    'https://api.example/v1',
    'https://10.0.0.7:8443',
    'http://127.0.0.1:8000/v1',
    'http://localhost',
    'http://[::1]:9',
  ])('may be %s', (url) => expect(checkAddress(url, strict)).toMatchObject({ ok: true }));

  it.each([
    'https://169.254.169.254/latest',
    // The same number in other spellings.
    'https://2852039166/',
    'https://0xa9fea9fe/',
    'https://0251.0376.0251.0376/',
    'https://[::ffff:169.254.169.254]/',
    'https://[64:ff9b::a9fe:a9fe]/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://100.100.100.200/',
    'https://0.0.0.0/',
    'https://[::]/',
    'https://224.0.0.1/',
    'https://metadata.google.internal/',
    'https://metadata.google.internal./',
    'https://METADATA.internal/',
    'https://instance-data.ec2.internal/',
  ])('is never %s, even where HTTP is allowed', (url) => {
    expect(checkAddress(url, { allowHttp: true })).toMatchObject({
      ok: false,
      problem: expect.stringMatching(/link-local or metadata/),
    });
  });

  it('is HTTP to another machine only where that is allowed', () => {
    for (const url of ['http://10.0.0.7', 'http://api.example', 'http://localhost.example']) {
      expect(checkAddress(url, strict)).toMatchObject({
        ok: false,
        problem: expect.stringMatching(/allowHttp/),
      });
      expect(checkAddress(url, { allowHttp: true })).toMatchObject({ ok: true });
    }
  });

  it.each([
    ['ftp://api.example', /such as https/],
    ['file:///etc/passwd', /such as https/],
    ['api.example', /such as https/],
    ['https://me:secret@api.example', /give the key as key/],
    ['https://api.example/v1?key=1', /without \? and #/],
  ])('is not %s', (url, problem) => {
    expect(checkAddress(url, strict)).toMatchObject({ ok: false, problem: expect.stringMatching(problem) });
  });
});

const lookup = (url: string, host: string, all: boolean) =>
  new Promise<unknown>((resolve) => {
    lookupFor(new URL(url), strict)(host, { all }, (error, found) => resolve(error?.message ?? found));
  });

describe('a name at the time of the connection', () => {
  it('leads to the addresses it has, in the form that is asked for', async () => {
    expect(await lookup('http://localhost', '127.0.0.1', true)).toEqual([
      { address: '127.0.0.1', family: 4 },
    ]);
    expect(await lookup('http://localhost', '127.0.0.1', false)).toBe('127.0.0.1');
  });

  it('leads nowhere where it has come to mean what no upstream may be', async () => {
    // An address stands for a name that was changed to it after the start.
    expect(await lookup('https://api.example', '169.254.169.254', true)).toMatch(/where no upstream may be/);
    expect(await lookup('https://api.example', '::ffff:169.254.169.254', false)).toMatch(
      /where no upstream may be/,
    );
    expect(await lookup('http://localhost', '10.0.0.7', false)).toMatch(/where no upstream may be/);
    expect(await lookup('https://api.example', '10.0.0.7', false)).toBe('10.0.0.7');
  });
});
