//go:build invariants || race

package invariants

// Enabled says whether invariants are checked.
const Enabled = true
