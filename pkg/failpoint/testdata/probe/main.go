// Command probe passes one step five times and prints the number of each pass after it.
package main

import (
	"fmt"

	"github.com/slotwise/slotwise/pkg/failpoint"
)

func main() {
	for n := 1; n <= 5; n++ {
		failpoint.Hit("probe")
		fmt.Println(n)
	}
}
