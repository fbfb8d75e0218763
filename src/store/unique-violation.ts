// Whether a row was refused because another has the same values, in the words of either database.

interface UniqueIndex {
  readonly name: string;
  readonly table: string;
  readonly column: string;
}

export function violates(error: unknown, { name, table, column }: UniqueIndex): boolean {
  if (!(error instanceof Error && 'code' in error)) return false;
  // SQLite names the column, Postgres the index.
  if (error.code === 'SQLITE_CONSTRAINT_UNIQUE') return error.message.includes(`${table}.${column}`);
  return error.code === '23505' && 'constraint' in error && error.constraint === name;
}
