// The head of a table. Over numbers, a name stands on the right, as they do.

/** `hidden`: for screen readers alone. */
export type Heading = string | { readonly number: string } | { readonly hidden: string };

export function Headings({ columns }: { readonly columns: readonly Heading[] }) {
  return (
    <thead>
      <tr>{columns.map(headingOf)}</tr>
    </thead>
  );
}

function headingOf(heading: Heading) {
  if (typeof heading === 'string') {
    return (
      <th key={heading} scope="col">
        {heading}
      </th>
    );
  }
  if ('number' in heading) {
    return (
      <th key={heading.number} scope="col" class="number">
        {heading.number}
      </th>
    );
  }
  return (
    <th key={heading.hidden} scope="col">
      <span class="offscreen">{heading.hidden}</span>
    </th>
  );
}
