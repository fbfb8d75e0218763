import { describe, expect, it } from 'vitest';
import { isPostgresAddress, readAddress, withoutPassword } from './postgres-address.ts';

describe('the address of a Postgres database', () => {
  it('is told from a path', () => {
    expect(['postgres://host/a', 'postgresql://u:p@host/a'].map(isPostgresAddress)).toEqual([true, true]);
    expect(['/var/postgres', 'postgres.db', './postgres:', ':memory:'].map(isPostgresAddress)).toEqual(
      Array(4).fill(false),
    );
  });

  it('gives what it names, and leaves the rest to the environment', () => {
    expect(readAddress('postgres://ann:p%40%2Fss@db.example:6432/lift')).toEqual({
      host: 'db.example',
      port: 6432,
      user: 'ann',
      password: 'p@/ss',
      database: 'lift',
    });
    expect(readAddress('postgres://[::1]')).toEqual({ host: '::1' });
    expect(readAddress('postgres:///lift?host=/run/postgresql')).toEqual({
      host: '/run/postgresql',
      database: 'lift',
    });
  });

  it('says by sslmode whom to trust', () => {
    const ssl = (mode: string) => readAddress(`postgres://host/a?sslmode=${mode}`).ssl;
    expect(ssl('disable')).toBe(false);
    expect(ssl('require')).toEqual({ rejectUnauthorized: false });
    expect(ssl('verify-ca')).toHaveProperty('checkServerIdentity');
    expect(ssl('verify-full')).toEqual({});
  });

  it.each([
    ['postgres://host:port/a', /written postgres:/],
    ['postgres://u:%zz@host/a', /%-codes/],
    ['postgres://one,two/a', /several hosts/],
    ['postgres://host/a?sslmode=prefer', /disable, require, verify-ca, verify-full, not prefer/],
    ['postgres://host/a?pasword=x', /parameter pasword; these are known/],
    ['postgres://host/a?sslrootcert=/nowhere', /no sslmode/],
    ['postgres://host/a?sslmode=verify-full&sslrootcert=/nowhere', /ENOENT/],
  ])('is refused as %s', (address, problem) => expect(() => readAddress(address)).toThrow(problem));

  it('is shown without its password, whatever that is', () => {
    expect(withoutPassword('postgres://ann:secret@host/a')).toBe('postgres://ann@host/a');
    expect(withoutPassword('postgres://ann:se@cr/et:x@host/a')).toBe('postgres://ann@host/a');
    expect(withoutPassword('postgres://ann@host/a')).toBe('postgres://ann@host/a');
    expect(withoutPassword('/data/a:b@c.db')).toBe('/data/a:b@c.db');
    expect(() => readAddress('postgres://ann:secret@host/a?x=1')).toThrow(/^postgres:\/\/ann@host/);
  });
});
