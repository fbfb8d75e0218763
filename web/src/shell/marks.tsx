// Small marks next to a name: a colour, a tier, Chairlift's own.

import type { Tier } from '../../../src/store/key-record.ts';

export function Swatch({ colour }: { readonly colour: string }) {
  return (
    <svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">
      <rect width="10" height="10" rx="2" fill={`var(${colour})`} />
    </svg>
  );
}

export function TierMark({ tier }: { readonly tier: Tier }) {
  return (
    <span class="tier" data-tier={tier}>
      {tier}
    </span>
  );
}

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path class="mark-cable" d="M0 9.5 32 3.5" />
      <circle class="mark-wheel" cx="16" cy="6.5" r="2.2" />
      <path class="mark-hanger" d="M16 8v9" />
      <path class="mark-seat" d="M9 15v8.5h13M9 19.5h13M22 16.5v10" />
    </svg>
  );
}
