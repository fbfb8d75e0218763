// Headings of tables, and the box that scrolls where a table is too wide or too long.

import type { ComponentChildren } from 'preact';

/** `hidden`: for screen readers alone. */
type Heading = string | { readonly number: string } | { readonly hidden: string };

export function Headings({ columns }: { readonly columns: readonly Heading[] }) {
  return (
    <thead>
      <tr>{columns.map(headingOf)}</tr>
    </thead>
  );
}

function headingOf(heading: Heading) {
  const [kind, name] = typeof heading === 'string' ? ['text', heading] : (Object.entries(heading)[0] ?? []);
  return (
    <th key={name} scope="col" class={kind === 'number' ? 'number' : undefined}>
      {kind === 'hidden' ? <span class="offscreen">{name}</span> : name}
    </th>
  );
}

interface ScrollBoxProps {
  readonly name: string;
  readonly cut?: boolean;
  readonly children: ComponentChildren;
}

export function ScrollBox({ name, cut = false, children }: ScrollBoxProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section class={cut ? 'scroll-box cut' : 'scroll-box'} tabIndex={0} aria-label={name}>
      {children}
    </section>
  );
}
