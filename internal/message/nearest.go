package message

// Nearest returns the name with the smallest Levenshtein distance, if it is at most three and a third of the letters. Of several it returns the
// first in alphabetical order.
func Nearest(name string, names []string) string {
	best, fewest := "", min(3, len(name)/3)
	for _, candidate := range names {
		if size := len(candidate) - len(name); size > fewest || -size > fewest {
			continue
		}
		if n := changes(name, candidate); n > 0 && (n < fewest || n == fewest && (best == "" || candidate < best)) {
			best, fewest = candidate, n
		}
	}
	return best
}

// changes returns the Levenshtein distance.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
