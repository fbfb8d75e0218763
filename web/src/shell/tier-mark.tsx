// A tier, marked as a piste is: by a colour, and by its name for whoever does not see colours.

import type { Tier } from '../../../src/store/key-record.ts';

export function TierMark({ tier }: { readonly tier: Tier }) {
  return (
    <span class="tier" data-tier={tier}>
      {tier}
    </span>
  );
}
