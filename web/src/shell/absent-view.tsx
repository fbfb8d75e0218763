// What an administrator sees whose address names a view that this server does not have.

import { hashOf, type View, viewTitles } from './route.ts';

/** Why there is no such view here, and what to do. */
const reasons: Partial<Readonly<Record<View, string>>> = {
  fleet: 'This server is not part of a fleet. Start it with --join to join one: docs/fleet.md says how.',
  keys: 'This server keeps no keys: there are none to show or make.',
};

export function AbsentView({ view }: { readonly view: View }) {
  return (
    <section>
      <h1>{viewTitles[view]}</h1>
      <p>{reasons[view] ?? 'This server has no such view.'}</p>
      <p>
        <a href={hashOf({ view: 'lift' })}>Go to {viewTitles.lift}</a>
      </p>
    </section>
  );
}
