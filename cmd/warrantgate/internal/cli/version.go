package cli

// Version is the version that was built. main sets it once, before it runs a command.
var Version = "dev"

// UserAgent returns the User-Agent header of the program's requests.
func UserAgent() string { return "warrantgate/" + Version }
