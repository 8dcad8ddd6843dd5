module github.com/slotwise/slotwise/e2e

go 1.26.0

require github.com/slotwise/slotwise/pkg v0.0.0

replace github.com/slotwise/slotwise/pkg => ../pkg

require github.com/slotwise/slotwise/testkit v0.0.0

replace github.com/slotwise/slotwise/testkit => ../testkit
