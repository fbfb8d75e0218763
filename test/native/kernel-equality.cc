// All kernels of all tables that this machine runs, over random data of one seed, against the scalar table. The
// fingerprint covers the scalar results: two architectures that print the same one compute the same bits.

#include "equality.h"

int main() {
  chairlift::Equality equality;
  chairlift::Random random(20261115);
  chairlift::holdRows(equality, random);
  chairlift::holdAttention(equality, random);
  chairlift::holdProducts(equality, random);
  chairlift::holdRecurrence(equality, random);
  chairlift::holdOrder(equality, random);
  chairlift::holdQ4(equality, random);
  return equality.report();
}
