package plan

// FindOwed is what Handle asks the database.
var FindOwed = Reminders.owed
