module templates

go 1.20
